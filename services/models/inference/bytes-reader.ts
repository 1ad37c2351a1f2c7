import { asBuffer } from '#shared/as-buffer.ts';
import type { Measures } from '../domain/price.ts';
import type { AnswerEnd, AnswerReader } from './prepared-call.ts';

/** How JSON and markup begin, or all that has come of them: no sound is written so. */
const writing = /^(\xef\xbb\xbf)?\s*(\[\s*)?(\{\s*(["}]|$)|<([a-z!?/]|$)|$)/i;
const writingBytes = 64;

/** Passes bytes on as they come, such as sound. */
export class BytesReader implements AnswerReader {
  readonly contentType: string;
  readonly passesOn = true;
  readonly complete = false;
  readonly outputTokensSoFar = 0;
  readonly #measure: (bytes: number) => Partial<Measures>;
  #bytes = 0;

  /** `measure` says what so many bytes are charged for. */
  constructor(options: { contentType: string; measure(bytes: number): Partial<Measures> }) {
    this.contentType = options.contentType;
    this.#measure = options.measure;
  }

  /** Some servers say 200 and an error, or a page, and nothing of its type. */
  isAnswer(start: Uint8Array): boolean {
    return !writing.test(asBuffer(start).toString('latin1', 0, writingBytes));
  }

  push(chunk: Uint8Array): readonly Uint8Array[] {
    this.#bytes += chunk.byteLength;
    return [chunk];
  }

  end(_cut: boolean): AnswerEnd {
    return {
      forward: [],
      reported: this.#measure(this.#bytes),
      counted: async () => ({}),
      failure: this.#bytes === 0 ? 'the answer is empty' : null,
    };
  }
}
