import type { ReportedUsage } from '../bytes/reported-usage.ts';
import { readResponseUsage } from '../bytes/usage-scan.ts';
import type { Measures } from '../domain/price.ts';
import type { AnswerEnd, AnswerReader } from './prepared-call.ts';

/** What of a reported usage is measured. */
export const measuresOf = (usage: ReportedUsage): Partial<Measures> => ({
  inputTokens: usage.inputTokens,
  cachedInputTokens: usage.cachedInputTokens,
  outputTokens: usage.outputTokens,
  audioMs: usage.audioMs,
});

/** Gathers a JSON answer, which is passed on byte for byte. */
export class WholeJsonReader implements AnswerReader {
  readonly contentType = 'application/json';
  readonly passesOn = false;
  readonly complete = false;
  readonly outputTokensSoFar = 0;
  readonly #pieces: Uint8Array[] = [];

  push(chunk: Uint8Array): readonly Uint8Array[] {
    this.#pieces.push(chunk);
    return [];
  }

  end(cut: boolean): AnswerEnd {
    const body =
      this.#pieces.length === 1
        ? Buffer.from(this.#pieces[0]!.buffer, this.#pieces[0]!.byteOffset, this.#pieces[0]!.byteLength)
        : Buffer.concat(this.#pieces);
    if (cut || !looksWhole(body)) {
      return {
        forward: [],
        reported: {},
        countOutputTokens: async () => 0,
        failure: { code: 'upstream_error', message: 'the answer is no JSON object' },
      };
    }
    const { usage } = readResponseUsage(body);
    return {
      forward: [body],
      reported: usage === null ? null : measuresOf(usage),
      // Nothing can be counted in an answer whose upstream does not count: the words of every operation lie elsewhere.
      countOutputTokens: async () => 0,
      failure: null,
    };
  }
}

const openBrace = 0x7b;
const closeBrace = 0x7d;

/**
 * Whether an answer is a JSON object as far as its two ends tell. A body that broke off does not end so, and HTML does not begin
 * so; reading megabytes of embeddings for more would cost clients more than it would protect them from.
 */
function looksWhole(body: Buffer): boolean {
  let start = 0;
  let end = body.byteLength - 1;
  while (start <= end && body[start]! <= 0x20) start++;
  while (end > start && body[end]! <= 0x20) end--;
  return body[start] === openBrace && body[end] === closeBrace;
}
