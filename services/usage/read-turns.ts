import type { HandlerContext } from '@connectrpc/connect';
import pLimit from 'p-limit';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { turnsByName } from '#shared/turns-by-name.ts';

/** Each takes two connections at most: the rest are for storing, charging and the grants of rate limits. */
const readsAtOnce = 3;
const readsOfOneAtOnce = 2;
const waitingOfOneMax = 50;

/** Runs a read when it is its caller's turn, unless they have left. */
export type ReadTurns = <Result>(context: HandlerContext, read: () => Promise<Result>) => Promise<Result>;

/**
 * Few reads run at a time, and fewer of one organization: whoever asks for many waits for their own. Beyond a number that wait they fail
 * with RATE_LIMITED.
 */
export function createReadTurns(): ReadTurns {
  const turns = pLimit(readsAtOnce);
  const turnsOf = turnsByName(readsOfOneAtOnce);

  return async (context, read) => {
    const { tenantId } = callerOf(context);
    if (turnsOf.waiting(tenantId) >= waitingOfOneMax) {
      throw gatewayError(ErrorReason.RATE_LIMITED, 'Too many reports of your organization wait. Try again in 1 s.', {
        retryAfterMs: 1_000,
      });
    }
    return turnsOf.run(tenantId, () =>
      turns(async () => {
        context.signal.throwIfAborted();
        return read();
      }),
    );
  };
}
