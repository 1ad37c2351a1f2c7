import type { Tokenizer } from '../../bytes/tokens.ts';
import { Refusal } from './answer.ts';

/** One prompt or embedding input. The number of tokens is known where the client sent tokens. */
export type Input = { text: string; tokens: number | undefined };

/** Reads a string, an array of strings, an array of token ids or an array of such arrays. */
export function readInputs(value: unknown, param: string, inputsMax: number, tokens: Tokenizer): Input[] {
  const bad = (what: string) => new Refusal(`Invalid value for '${param}': ${what}.`, { param, code: 'invalid_value' });
  const fromTokens = (ids: readonly unknown[]): Input => {
    const text = tokens.decode(ids as number[]);
    if (text === null || ids.length === 0) throw bad('an array of token ids has something else in it');
    return { text, tokens: ids.length };
  };
  if (typeof value === 'string') return [{ text: value, tokens: undefined }];
  if (!Array.isArray(value) || value.length === 0) throw bad('expected a string or a non-empty array');
  if (typeof value[0] === 'number') return [fromTokens(value)];
  if (value.length > inputsMax) throw bad(`expected at most ${inputsMax} inputs`);
  return value.map((input) => {
    if (typeof input === 'string') return { text: input, tokens: undefined };
    if (Array.isArray(input)) return fromTokens(input);
    throw bad('expected strings or arrays of token ids');
  });
}
