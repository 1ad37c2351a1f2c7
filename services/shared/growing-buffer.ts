const empty = Buffer.alloc(0);
const firstCapacityBytes = 512;
/** Up to this many bytes a loop is faster than calling the native copy. */
const shortBytes = 24;

/** Bytes that grow at the end, at a cost linear in their number, however small the steps. */
export class GrowingBuffer {
  #bytes = empty;
  length = 0;

  /** Makes room for this many bytes at once, when the number is known beforehand. */
  reserve(length: number): void {
    if (length <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(length);
    if (this.length > 0) this.#bytes.copy(larger, 0, 0, this.length);
    this.#bytes = larger;
  }

  /** Appends a whole buffer, for which there is a faster way than for a part of one. */
  appendWhole(source: Buffer): void {
    const length = this.length + source.length;
    this.#grow(length);
    this.#bytes.set(source, this.length);
    this.length = length;
  }

  append(source: Buffer, start: number, end: number): void {
    const length = this.length + end - start;
    this.#grow(length);
    if (end - start > shortBytes) source.copy(this.#bytes, this.length, start, end);
    else
      for (let offset = 0; offset < end - start; offset += 1)
        this.#bytes[this.length + offset] = source[start + offset]!;
    this.length = length;
  }

  #grow(length: number): void {
    if (length > this.#bytes.length) this.reserve(Math.max(firstCapacityBytes, length, this.#bytes.length * 2));
  }

  /** The bytes in place; they change with the next append. */
  view(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  /** Hands over the bytes and starts empty. */
  take(): Buffer {
    const taken = this.view();
    this.#bytes = empty;
    this.length = 0;
    return taken;
  }
}
