import type { Clock } from '#shared/clock.ts';

/** A clock that stands still until it is moved. */
export class ManualClock implements Clock {
  #nowMs: number;
  #monotonicMs = 0;

  constructor(startMs: number) {
    this.#nowMs = startMs;
  }

  now = (): number => this.#nowMs;
  monotonic = (): number => this.#monotonicMs;

  /** Moves both clocks forward. */
  advance(ms: number): void {
    this.#nowMs += ms;
    this.#monotonicMs += ms;
  }

  /** Sets only the wall clock, as an administrator or a time server would. */
  set(ms: number): void {
    this.#nowMs = ms;
  }
}
