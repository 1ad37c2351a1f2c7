const firstCapacityBytes = 512;
/** Up to so many bytes a loop is quicker than the call that copies. */
const shortBytes = 24;

/** Bytes that grow at the end, at a cost that is linear in their number however small the steps. */
export class GrowingBuffer {
  #bytes: Buffer = Buffer.alloc(0);
  length = 0;

  append(source: Buffer, start: number, end: number): void {
    const length = this.length + end - start;
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(firstCapacityBytes, length, this.#bytes.length * 2));
      this.#bytes.copy(larger, 0, 0, this.length);
      this.#bytes = larger;
    }
    if (end - start > shortBytes) source.copy(this.#bytes, this.length, start, end);
    else
      for (let offset = 0; offset < end - start; offset += 1)
        this.#bytes[this.length + offset] = source[start + offset]!;
    this.length = length;
  }

  /** The bytes in place; they change with the next append. */
  view(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  /** Gives up the bytes. */
  take(): Buffer {
    const taken = this.view();
    this.#bytes = Buffer.alloc(0);
    this.length = 0;
    return taken;
  }
}
