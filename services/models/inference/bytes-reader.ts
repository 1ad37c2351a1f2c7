import type { Measures } from '../domain/price.ts';
import type { AnswerEnd, AnswerReader } from './prepared-call.ts';

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
