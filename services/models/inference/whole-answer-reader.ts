import { asBuffer } from '#shared/as-buffer.ts';
import { GrowingBuffer } from '#shared/growing-buffer.ts';
import { withoutMark } from '../bytes/byte-order-mark.ts';
import { answerBytesMax } from '../bytes/chat-stream.ts';
import { oneBuffer } from '../bytes/one-buffer.ts';
import { errorInBody } from '../bytes/stream-error.ts';
import { gatheredBytesMax } from '../upstream/http1/response-parser.ts';
import type { UpstreamHead } from '../upstream/upstream.ts';
import type { AnswerEnd, AnswerReader } from './prepared-call.ts';
import { upstreamFailed } from './upstream-errors.ts';

/** A whole answer as the client gets it, and what it used. */
export type WholeAnswer = Pick<AnswerEnd, 'forward' | 'forwardWith' | 'reported' | 'counted'>;

const jsonType = /^application\/([\w.+-]+\+)?json/i;

export const isJson = (head: UpstreamHead): boolean => jsonType.test(head.header('content-type') ?? '');

/** The most pieces that are kept apart: in memory, one of a single byte takes some two hundred. */
const piecesMax = 1_024;

/** Gathers an answer, and reads it once it is whole. */
export class WholeAnswerReader implements AnswerReader {
  readonly contentType: string;
  readonly passesOn = false;
  readonly complete = false;
  readonly outputTokensSoFar = 0;
  readonly #read: (body: Buffer) => WholeAnswer | null;
  readonly #readLarge: ((body: Buffer) => Promise<WholeAnswer | null>) | undefined;
  /** What was read beforehand; undefined: nothing was. */
  #answer: WholeAnswer | null | undefined;
  readonly #bytesMax: number;
  readonly #bytesExpected: number;
  /** The pieces of a short answer, which usually comes in one buffer. */
  #pieces: Uint8Array[] = [];
  /** The pieces of a long one, or of one that comes in many. */
  readonly #gathered = new GrowingBuffer();
  #bytes = 0;

  /**
   * `read` returns null for bytes that are no answer of the operation; more than `bytesMax` of them are the upstream's fault. `head` tells
   * how many there will be, if the upstream does. `readLarge` reads what would hold the event loop for long, and may take the memory of its
   * body.
   */
  constructor(
    read: (body: Buffer) => WholeAnswer | null,
    {
      contentType = 'application/json',
      bytesMax = answerBytesMax,
      head,
      readLarge,
    }: {
      contentType?: string | undefined;
      bytesMax?: number;
      head?: UpstreamHead;
      readLarge?(body: Buffer): Promise<WholeAnswer | null>;
    } = {},
  ) {
    this.#read = read;
    this.#readLarge = readLarge;
    this.contentType = contentType;
    this.#bytesMax = bytesMax;
    this.#bytesExpected = Math.min(Number(head?.header('content-length')) || 0, bytesMax);
  }

  get heldBytes(): number {
    return this.#bytes;
  }

  push(chunk: Uint8Array): readonly Uint8Array[] {
    this.#bytes += chunk.byteLength;
    if (this.#bytes > this.#bytesMax) throw upstreamFailed('the answer is larger than any of its operation');
    this.#pieces.push(chunk);
    const isLong = this.#bytes > gatheredBytesMax;
    if (isLong || this.#pieces.length > piecesMax || this.#gathered.length > 0) {
      if (isLong) this.#gathered.reserve(this.#bytesExpected);
      for (const piece of this.#pieces) this.#gathered.appendWhole(asBuffer(piece));
      this.#pieces = [];
    }
    return [];
  }

  readBeforehand(): Promise<void> | undefined {
    if (this.#readLarge === undefined || this.#gathered.length <= gatheredBytesMax) return undefined;
    return this.#readLarge(withoutMark(this.#gathered.take())).then((answer) => {
      this.#answer = answer;
    });
  }

  end(cut: boolean): AnswerEnd {
    const body = withoutMark(this.#gathered.length === 0 ? oneBuffer(this.#pieces) : this.#gathered.take());
    const answer = cut ? null : this.#answer === undefined ? this.#read(body) : this.#answer;
    if (answer !== null) {
      const { forward, forwardWith, reported, counted } = answer;
      return { forward, forwardWith, reported, counted, failure: null };
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
