/** Smaller bodies are not worth counting: there are no more of them than connections. */
export const countedBytesMin = 64 * 1024;

/** How many of a body's bytes count: all of them, or none of a small one's. */
export const countedBytes = (bytes: number): number => (bytes > countedBytesMin ? bytes : 0);

/**
 * One user may hold this many times what they leave to others: with more users each may hold less, and there is always room for one more.
 */
const timesLeftMax = 3;

/** How many bytes of memory are held, and for whom. */
export class HeldBytes {
  readonly #of = new Map<string, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  of(userId: string): number {
    return this.#of.get(userId) ?? 0;
  }

  /** Whether a user may hold this many bytes more, when all together may hold `bytesMax`. */
  hasRoom(userId: string, bytes: number, bytesMax: number): boolean {
    return this.of(userId) + bytes <= (bytesMax - this.#total - bytes) * timesLeftMax;
  }

  /** A negative number gives back. */
  add(userId: string, bytes: number): void {
    this.#total += bytes;
    const own = this.of(userId) + bytes;
    if (own === 0) this.#of.delete(userId);
    else this.#of.set(userId, own);
  }
}
