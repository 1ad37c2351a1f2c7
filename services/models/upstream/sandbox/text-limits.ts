import type { Tokenizer } from '../../bytes/tokens.ts';
import { Refusal } from './answer.ts';

/** Counts until it is certain that the text cannot fit: a token has at most 128 characters. */
export async function countWithin(tokens: Tokenizer, text: string, windowTokens: number): Promise<number> {
  return text.length > windowTokens * 128 ? windowTokens + 1 : tokens.count(text, windowTokens);
}

/** Refuses what exceeds the context window. `outputTokens` is what the caller asked to be left for the answer. */
export function checkContext(windowTokens: number, promptTokens: number, outputTokens: number, param: string): void {
  if (promptTokens + outputTokens <= windowTokens) return;
  const requested = `${promptTokens + outputTokens} tokens (${promptTokens} in the ${param}, ${outputTokens} in the completion)`;
  throw new Refusal(
    `This model's maximum context length is ${windowTokens} tokens. However, you requested ${requested}.`,
    { param, code: 'context_length_exceeded' },
  );
}

/** The most tokens of an answer; refuses a wish that exceeds the model, naming the field `param`. */
export function outputLimit(asked: number | undefined, outputTokensMax: number, param: string): number {
  if (asked !== undefined && asked > outputTokensMax) {
    throw new Refusal(
      `${param} is too large: ${asked}. This model supports at most ${outputTokensMax} completion tokens.`,
      { param, code: 'invalid_value' },
    );
  }
  return asked ?? outputTokensMax;
}
