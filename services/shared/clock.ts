/** The source of the time for all code, so that a test can control it. */
export type Clock = {
  /** Milliseconds since the Unix epoch (wall clock; may jump). */
  now(): number;
  /** Milliseconds on a clock that never goes back; only differences are meaningful. */
  monotonic(): number;
};

/** How far the clocks of two machines may differ: calls from one that is further ahead are refused, and those from one far behind. */
export const clockDifferenceMsMax = 30_000;

/** Timers with a longer delay fire at once (2^31 - 1 ms, 24 days). */
export const timerMsMax = 2_147_483_647;

export const systemClock: Clock = {
  now: Date.now,
  monotonic: () => performance.now(),
};

/** A clock that starts at `startMs` and runs at the speed of the system clock (setting CLOCK of the environment). */
export function clockStartingAt(startMs: number): Clock {
  const offset = startMs - Date.now();
  return { now: () => Date.now() + offset, monotonic: () => performance.now() };
}
