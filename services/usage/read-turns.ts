import type { HandlerContext } from '@connectrpc/connect';
import pLimit from 'p-limit';
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
  const turnsOf = turnsByName(readsOfOneAtOnce, { max: waitingOfOneMax, what: 'reports of your organization' });

  return async (context, read) => {
    const { tenantId } = callerOf(context);
    return turnsOf.run(tenantId, () =>
      turns(async () => {
        context.signal.throwIfAborted();
        return read();
      }),
    );
  };
}
