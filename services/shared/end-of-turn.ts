/**
 * Does at the end of the event loop's turn, once, what was asked for during it. A turn may take seconds when thousands of connections are
 * active: what has waited for longer than `waitMsMax` is done as soon as more is asked for.
 */
export class EndOfTurn {
  readonly #waitMsMax: number;
  readonly #work: () => void;
  #asked = false;
  #askedMs = 0;

  constructor(waitMsMax: number, work: () => void) {
    this.#waitMsMax = waitMsMax;
    this.#work = work;
  }

  ask(): void {
    const nowMs = performance.now();
    if (this.#asked && nowMs - this.#askedMs <= this.#waitMsMax) return;
    this.#askedMs = nowMs;
    if (this.#asked) this.#work();
    else setImmediate(this.#end);
    this.#asked = true;
  }

  readonly #end = (): void => {
    this.#asked = false;
    this.#work();
  };
}
