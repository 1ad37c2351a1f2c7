import { setTimeout as delay } from 'node:timers/promises';
import { ErrorReason, GatewayError, hasReason } from '#shared/errors.ts';
import { messageOf } from '#shared/message-of.ts';
import { StartError } from '#shared/start-error.ts';
import { isOutOfReach } from './errors.ts';

const pauseMs = 100;

/** How a service's call fails when its database is away, or has not answered in time. */
const waitingHelps = [ErrorReason.OVERLOADED, ErrorReason.DEADLINE_EXCEEDED];

/**
 * Runs a step of a start, and repeats it while the database, or a service, is out of reach, for `patienceMs` in all: on a busy machine the
 * first connections of a start may take longer than a request would wait for one.
 *
 * @throws StartError when it stays away; any other error of `work` at once.
 */
export async function patiently<Result>(work: () => Promise<Result>, patienceMs = 15_000): Promise<Result> {
  const untilMs = performance.now() + patienceMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const isAway = isOutOfReach(error) || waitingHelps.some((reason) => hasReason(error, reason));
      if (!isAway) throw error;
      if (performance.now() >= untilMs) {
        // Clients are told the same whatever the cause.
        const cause = error instanceof GatewayError ? (error.cause ?? error) : error;
        throw new StartError(
          `The database or a service was out of reach or too slow for ${patienceMs / 1_000} s during the start (${messageOf(cause)}): fix that and start again.`,
          { cause: error },
        );
      }
      await delay(pauseMs);
    }
  }
}
