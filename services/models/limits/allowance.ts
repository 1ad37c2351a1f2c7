/** A replica holds for the next second so much more than it was asked for in the last. */
const headroom = 1.25;

/** What a replica may still let through of one limit, as it was granted, and what it will need. */
export class Allowance {
  /** Below 0: so much went through without a grant. */
  left = 0;
  /** Since the last report in turn. */
  #asked = 0;
  #waiting = 0;
  #largestWaiting = 0;

  get isUnused(): boolean {
    return this.left === 0 && this.#asked === 0 && this.#waiting === 0;
  }

  get wasAsked(): boolean {
    return this.#asked > 0;
  }

  ask(amount: number): void {
    this.#asked += amount;
  }

  /** Whether `amount` may go, when so much may go without a grant. */
  covers(amount: number, unasked: number): boolean {
    return this.left - amount >= -unasked;
  }

  /** Takes `amount`, or gives it back when it is negative. Answers by how much this changed what has gone without a grant. */
  take(amount: number): number {
    const before = Math.max(0, -this.left);
    this.left -= amount;
    return Math.max(0, -this.left) - before;
  }

  /** `amount` waits for a grant; call what is answered when it no longer does. */
  wait(amount: number): () => void {
    this.#waiting += amount;
    this.#largestWaiting = Math.max(this.#largestWaiting, amount);
    return () => {
      this.#waiting -= amount;
      if (this.#waiting === 0) this.#largestWaiting = 0;
    };
  }

  /**
   * What to settle with Usage, and how much to ask it for. Until the answer comes the replica has only what it keeps of its grant; what
   * nobody seems to need is given back in turn alone, once a second.
   */
  report(limit: number, inTurn: boolean): { settled: number; wanted: number } {
    const needed = Math.ceil(Math.max(this.#asked * headroom, this.#waiting));
    const target = Math.min(needed, Math.max(limit, this.#largestWaiting));
    const kept = Math.min(Math.max(0, this.left), inTurn ? target : Number.POSITIVE_INFINITY);
    const settled = Math.ceil(kept - this.left);
    this.left += settled;
    if (inTurn) this.#asked = 0;
    return { settled, wanted: Math.max(0, Math.ceil(target - this.left)) };
  }

  /** A report did not arrive, as far as one knows: what went without a grant must be settled by the next. */
  takeBack({ settled }: { settled: number }): void {
    this.left -= Math.max(0, settled);
  }

  /** Nothing is granted, and so much has gone. */
  reset(gone: number): void {
    this.left = -gone;
    this.#asked = 0;
  }
}
