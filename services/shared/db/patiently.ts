import { setTimeout as delay } from 'node:timers/promises';
import { ErrorReason, hasReason } from '#shared/errors.ts';
import { isOutOfReach } from './errors.ts';

const pauseMs = 100;

/** What a call of a service says whose database is away, or has not answered in time. */
const waitingHelps = [ErrorReason.OVERLOADED, ErrorReason.DEADLINE_EXCEEDED];

/**
 * Does a piece of a service's start, and again while the database is out of reach, for `patienceMs` in all: on a busy machine the
 * first connections of a start may take longer than a request would wait for one.
 */
export async function patiently<Result>(work: () => Promise<Result>, patienceMs = 15_000): Promise<Result> {
  const untilMs = performance.now() + patienceMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const isAway = isOutOfReach(error) || waitingHelps.some((reason) => hasReason(error, reason));
      if (!isAway || performance.now() >= untilMs) throw error;
      await delay(pauseMs);
    }
  }
}
