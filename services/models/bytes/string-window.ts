import { createStringKernel, kernelWindowBytes } from './string-kernel.ts';

const firstWindowBytes = 1024;

/**
 * Lets the string kernel read buffers through its own memory: a copy of `source[base, limit)` stays there from one string to the next,
 * since copying costs more than searching. Call `forget` before walking bytes: they may have changed.
 */
export class StringWindow {
  readonly #kernel = createStringKernel();
  #source: Buffer | null = null;
  #base = 0;
  #limit = 0;
  #sizeBytes = firstWindowBytes;

  forget(): void {
    this.#source = null;
    this.#sizeBytes = firstWindowBytes;
  }

  /** The first byte of `bytes[position, end)` that is a quote, a control character or the start of an unusual escape; else `end`. */
  find(bytes: Buffer, position: number, end: number): number {
    while (position < end) {
      if (this.#source !== bytes || position >= this.#limit || position < this.#base) this.#load(bytes, position, end);
      const limit = Math.min(this.#limit, end);
      const found = this.#base + this.#kernel.find(position - this.#base, limit - this.#base);
      if (found < limit) return found;
      position = limit;
    }
    return end;
  }

  #load(bytes: Buffer, position: number, end: number): void {
    this.#source = bytes;
    this.#base = position;
    this.#limit = Math.min(position + this.#sizeBytes, end);
    bytes.copy(this.#kernel.window, 0, position, this.#limit);
    // Windows grow, so that a string of 100 bytes in a body of a megabyte does not cost a copy of 64 KiB.
    this.#sizeBytes = Math.min(this.#sizeBytes * 4, kernelWindowBytes);
  }
}
