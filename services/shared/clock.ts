/** Where all code takes the time from, so that a test can move it. */
export type Clock = {
  /** Milliseconds since the Unix epoch (wall clock; may jump). */
  now(): number;
  /** Milliseconds on a clock that never goes back; only differences mean anything. */
  monotonic(): number;
};

/** How far the clocks of two machines may differ: behind a machine that is not synchronized nothing at all would work. */
export const clockDifferenceMsMax = 30_000;

/** Timers fire at once above this (2^31 - 1 ms, 24 days). */
export const timerMsMax = 2_147_483_647;

export const systemClock: Clock = {
  now: Date.now,
  monotonic: () => performance.now(),
};

/** A clock that starts at `startMs` and runs at the pace of the system clock (setting CLOCK of the environment). */
export function clockStartingAt(startMs: number): Clock {
  const offset = startMs - Date.now();
  return { now: () => Date.now() + offset, monotonic: () => performance.now() };
}

/** A clock that stands still until it is moved; tests inject it. */
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

  /** Sets the wall clock alone, as an administrator or a time server would. */
  set(ms: number): void {
    this.#nowMs = ms;
  }
}
