/** A replica keeps this many times what it needed in the last second, for the next one. */
const headroom = 1.25;

/** What a replica may still let through under one limit, as it was granted, and what it will need. */
export class Allowance {
  /** Negative: that much went through without a grant. */
  left = 0;
  /** What the report under way tells of that, as far as it has not leaked since. */
  #told = 0;
  /** Since the last regular report. */
  #asked = 0;
  #waiting = 0;
  #largestWaiting = 0;

  get isUnused(): boolean {
    return this.left === 0 && this.#asked === 0 && this.#waiting === 0;
  }

  get waiting(): number {
    return this.#waiting;
  }

  get wasAsked(): boolean {
    return this.#asked > 0;
  }

  ask(amount: number): void {
    this.#asked += amount;
  }

  /** Whether `amount` may pass, when `unasked` may pass without a grant. */
  covers(amount: number, unasked: number): boolean {
    return this.left - amount >= -unasked;
  }

  /** Takes `amount`, or gives it back when it is negative. Returns by how much this changed what has passed without a grant. */
  take(amount: number): number {
    const before = Math.max(0, -this.left);
    this.left -= amount;
    return Math.max(0, -this.left) - before;
  }

  /** `amount` is waiting for a grant; call the returned function when it no longer does. */
  wait(amount: number): () => void {
    this.#waiting += amount;
    this.#largestWaiting = Math.max(this.#largestWaiting, amount);
    return () => {
      this.#waiting -= amount;
      if (this.#waiting === 0) this.#largestWaiting = 0;
    };
  }

  /**
   * What to settle with Usage, and how much to ask it for. Until the answer comes, the replica has only what it keeps of its grant. What
   * nobody seems to need is given back only in the regular report, once a second.
   */
  report(limit: number, inTurn: boolean): { settled: number; wanted: number } {
    const needed = Math.ceil(Math.max(this.#asked * headroom, this.#waiting));
    const target = Math.min(needed, Math.max(limit, this.#largestWaiting));
    const kept = Math.min(Math.max(0, this.left), inTurn ? target : Number.POSITIVE_INFINITY);
    const settled = Math.ceil(kept - this.left);
    this.#told = Math.max(0, kept - this.left);
    this.left = kept;
    if (inTurn) this.#asked = 0;
    return { settled, wanted: Math.max(0, Math.ceil(target - this.left)) };
  }

  /** The report has arrived, and this much was granted. */
  grant(amount: number): void {
    this.left += amount;
    this.#told = 0;
  }

  /** The report may not have arrived: what passed without a grant has to be settled by the next. */
  takeBack(): void {
    this.left -= this.#told;
    this.#told = 0;
  }

  /** What is left of grants may no longer be used, nor given back. */
  lapse(): void {
    this.left = Math.min(0, this.left);
  }

  /** Under a lowered limit, what is left or has passed takes up as much time as under the one before, as in the buckets. */
  lower(limit: number, before: number): void {
    if (limit >= before) return;
    this.left *= limit / before;
    this.#told *= limit / before;
  }

  /** So much of what passed without a grant counts no longer. */
  leak(amount: number): void {
    const ofTold = Math.min(this.#told, amount);
    this.#told -= ofTold;
    if (this.left < 0) this.left = Math.min(0, this.left + amount - ofTold);
  }

  /** Nothing is granted, and this much has passed. */
  reset(gone: number): void {
    this.left = -gone;
    this.#asked = 0;
  }
}
