import { oneBuffer } from '../bytes/one-buffer.ts';
import type { ReportedUsage } from '../bytes/reported-usage.ts';
import { errorInBody } from '../bytes/stream-error.ts';
import type { Measures } from '../domain/price.ts';
import type { AnswerEnd, AnswerReader } from './prepared-call.ts';
import { upstreamFailed } from './upstream-errors.ts';

/**
 * What of a reported usage is measured; nothing is said of audio of which it tells no length. A total that is told alone is of the input:
 * so some upstreams report an embedding's tokens.
 */
export const measuresOf = (usage: ReportedUsage): Partial<Measures> => ({
  inputTokens: usage.inputTokens ?? (usage.outputTokens === null ? usage.totalTokens : 0),
  cachedInputTokens: usage.cachedInputTokens,
  outputTokens: usage.outputTokens ?? 0,
  ...(usage.audioMs === null ? undefined : { audioMs: usage.audioMs }),
});

/** A whole answer as the client gets it, and what it used. */
export type WholeAnswer = Pick<AnswerEnd, 'forward' | 'reported' | 'counted'>;

/** Bytes that an answer of words may have. */
const bytesMaxDefault = 16 * 1024 * 1024;

/** Gathers an answer, and reads it once it is whole. */
export class WholeAnswerReader implements AnswerReader {
  readonly contentType: string;
  readonly passesOn = false;
  readonly complete = false;
  readonly outputTokensSoFar = 0;
  readonly #read: (body: Buffer) => WholeAnswer | null;
  readonly #bytesMax: number;
  readonly #pieces: Uint8Array[] = [];
  #bytes = 0;

  /** `read` answers null for bytes which are no answer of the operation; more than `bytesMax` of them are an upstream's fault. */
  constructor(
    read: (body: Buffer) => WholeAnswer | null,
    { contentType = 'application/json', bytesMax = bytesMaxDefault } = {},
  ) {
    this.#read = read;
    this.contentType = contentType;
    this.#bytesMax = bytesMax;
  }

  push(chunk: Uint8Array): readonly Uint8Array[] {
    this.#bytes += chunk.byteLength;
    if (this.#bytes > this.#bytesMax) throw upstreamFailed('the answer is larger than any of its operation');
    this.#pieces.push(chunk);
    return [];
  }

  end(cut: boolean): AnswerEnd {
    const body = oneBuffer(this.#pieces);
    const answer = cut ? null : this.#read(body);
    if (answer !== null) {
      const { forward, reported, counted } = answer;
      return { forward, reported, counted, failure: null };
    }
    return {
      forward: [],
      reported: {},
      counted: async () => ({}),
      failure: 'the answer is not what this operation answers',
      said: cut ? null : errorInBody(body),
    };
  }
}
