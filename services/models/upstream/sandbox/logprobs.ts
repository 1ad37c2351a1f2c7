import { isUtf8 } from 'node:buffer';
import type { Tokenizer } from '../../bytes/tokens.ts';
import { Refusal } from './answer.ts';
import { hashText, mixHash } from './hash.ts';

type Candidate = { token: string; logprob: number; bytes: readonly number[] };

/** A token of an answer, in the shape of chat completions. */
export type TokenLogprob = Candidate & { top_logprobs: Candidate[] };

/** How many tokens and candidates the choices of an answer may list: 100 bytes each, and the gateway reads no answers of more than 16 MiB. */
const listedMax = 100_000;
const others = 'the of and to a in that it is was for on with as be at by this not are or'
  .split(' ')
  .map((word) => ` ${word}`);

/** Refuses the wish, in the field `param`, for the `top` likeliest candidates in the place of each of as many tokens. */
export function checkListed(tokens: number, top: number, param: string): void {
  const listed = tokens * (1 + top);
  if (listed <= listedMax) return;
  const what = `the answer would list ${listed} tokens, and at most ${listedMax} fit`;
  throw new Refusal(`Invalid value for '${param}': ${what}.`, { param, code: 'invalid_value' });
}

/**
 * The tokens of a text. No model chose them: how likely each was, always one half at least, and the `top` likeliest candidates in its
 * place, of which it is the first, follow from the text alone.
 */
export async function logprobsOf(tokens: Tokenizer, text: string, top: number): Promise<TokenLogprob[]> {
  let hash = hashText(text);
  return (await tokens.encode(text)).map((id) => {
    hash = mixHash(hash + id);
    const probability = 0.5 + (hash % 1_000) / 2_001;
    const chosen = candidate(tokens.spell(id), probability);
    const top_logprobs = top === 0 ? [] : [chosen];
    let left = 1 - probability;
    for (let i = hash >>> 10; top_logprobs.length < top; i++) {
      const other = others[i % others.length]!;
      if (other === chosen.token) continue;
      left /= 2;
      top_logprobs.push(candidate(Buffer.from(other), left));
    }
    return { ...chosen, top_logprobs };
  });
}

const candidate = (spelled: Buffer, probability: number): Candidate => ({
  token: isUtf8(spelled) ? spelled.toString() : escaped(spelled),
  logprob: Math.round(Math.log(probability) * 1e6) / 1e6,
  bytes: [...spelled],
});

/** Part of a character as OpenAI writes it: `\xf0`. */
const escaped = (bytes: Buffer): string =>
  bytes.toString('latin1').replace(/[\x80-\xff]/g, (byte) => `\\x${byte.charCodeAt(0).toString(16)}`);

/** A part of a text, and the tokens that spell it. */
export type TextDelta = { text: string; logprobs: TokenLogprob[] };

/** The tokens as the deltas of a stream: each has as many as it takes to end with a whole character. */
export function tokenDeltas(listed: readonly TokenLogprob[]): TextDelta[] {
  const deltas: TextDelta[] = [];
  let open: TokenLogprob[] = [];
  for (const token of listed) {
    open.push(token);
    const spelled = Buffer.from(open.flatMap(({ bytes }) => bytes));
    if (!isUtf8(spelled)) continue;
    deltas.push({ text: spelled.toString(), logprobs: open });
    open = [];
  }
  return deltas;
}
