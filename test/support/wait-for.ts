import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';
import { startStopwatch } from './stopwatch.ts';

type WaitOptions = {
  /** Completes the sentence "waited 5000 ms for …". */
  description: string;
  /** Measured by a stopwatch: time in which the machine kept this process from running does not count. */
  timeoutMs?: number;
  /** The time between two checks, in milliseconds; by default a tenth of the time waited so far, but at least 5 and at most 100. */
  intervalMs?: number;
};

/**
 * Waits until `condition` returns something truthy, and returns that. A condition that throws is not met yet. Fails after `timeoutMs` (15
 * s) with what was waited for and what was seen last.
 */
export async function waitFor<Value>(
  condition: () => Value | Promise<Value>,
  { description, timeoutMs = 15_000, intervalMs }: WaitOptions,
): Promise<Exclude<Value, false | 0 | '' | null | undefined>> {
  using watch = startStopwatch();
  for (;;) {
    let seen: Value | undefined;
    let failure: unknown;
    try {
      seen = await condition();
      if (seen) return seen as Exclude<Value, false | 0 | '' | null | undefined>;
    } catch (error) {
      failure = error;
    }
    if (watch.ms >= timeoutMs) {
      const last = failure === undefined ? inspect(seen, { depth: 3 }) : String(failure);
      throw new Error(`waited ${timeoutMs} ms for ${description}; last seen: ${last}`, { cause: failure });
    }
    // A check is often a request, which takes the processor away from what is awaited, so long waits check less often.
    await delay(intervalMs ?? Math.min(Math.max(watch.ms / 10, 5), 100));
  }
}
