/** Bytes of memory that are held, and for whom. */
export class HeldBytes {
  readonly #of = new Map<string, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  of(whose: string): number {
    return this.#of.get(whose) ?? 0;
  }

  /** A negative number gives back. */
  add(whose: string, bytes: number): void {
    this.#total += bytes;
    const own = this.of(whose) + bytes;
    if (own === 0) this.#of.delete(whose);
    else this.#of.set(whose, own);
  }
}
