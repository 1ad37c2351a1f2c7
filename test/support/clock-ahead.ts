import type { Clock } from '#shared/clock.ts';

/** The system's clock, with its wall clock moved ahead by a test, so that time need not be waited for. */
export class ClockAhead implements Clock {
  /** By how much, in milliseconds. */
  aheadMs = 0;

  now = (): number => Date.now() + this.aheadMs;
  monotonic = (): number => performance.now();
}
