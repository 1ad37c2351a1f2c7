import { asBuffer } from '#shared/as-buffer.ts';
import type { Measures } from '../domain/price.ts';
import type { AnswerEnd, AnswerReader } from './prepared-call.ts';

/** How JSON and markup begin, even if only the first bytes have come: no sound begins like this. */
const writing = /^(\xef\xbb\xbf)?\s*(\[\s*)?(\{\s*(["}]|$)|<([a-z!?/]|$)|$)/i;
const writingBytes = 64;

/** Passes bytes, such as sound, on as they come. */
export class BytesReader implements AnswerReader {
  readonly contentType: string;
  readonly passesOn = true;
  readonly heldBytes = 0;
  readonly complete = false;
  readonly outputTokensSoFar = 0;
  readonly #measure: (bytes: number) => Partial<Measures>;
  #bytes = 0;

  /** `measure` tells what this many bytes are charged as. */
  constructor(options: { contentType: string; measure(bytes: number): Partial<Measures> }) {
    this.contentType = options.contentType;
    this.#measure = options.measure;
  }

  /** Some servers answer 200 with an error or a web page, and without a type that says so. */
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
