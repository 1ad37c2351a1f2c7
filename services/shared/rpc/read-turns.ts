import type { HandlerContext } from '@connectrpc/connect';
import pLimit from 'p-limit';
import { turnsByName } from '../turns-by-name.ts';
import { callerOf } from './caller.ts';

/** Each read takes two connections at most: the rest are for what model calls, jobs and sign-ins wait for. */
const readsAtOnce = 3;
const readsOfOneAtOnce = 2;
const waitingOfOneMax = 50;

/** Runs a read when it is its caller's turn, unless the caller has left. */
export type ReadTurns = <Result>(context: HandlerContext, read: () => Promise<Result>) => Promise<Result>;

/**
 * Few reads that may take long run at a time, and fewer of one organization: whoever asks for many waits for their own. If too many
 * are waiting, further ones fail with RATE_LIMITED.
 */
export function createReadTurns(): ReadTurns {
  const turns = pLimit(readsAtOnce);
  const turnsOf = turnsByName(readsOfOneAtOnce, {
    max: waitingOfOneMax,
    what: 'reports and lists of your organization',
  });

  return async (context, read) => {
    const { tenantId } = callerOf(context);
    return turnsOf.run(tenantId, context.signal, () =>
      turns(async () => {
        context.signal.throwIfAborted();
        return read();
      }),
    );
  };
}

/** Makes each call of an RPC such a read. */
export const readInTurn =
  (reads: ReadTurns) =>
  <Request, Answer>(rpc: (request: Request, context: HandlerContext) => Promise<Answer> | Answer) =>
  (request: Request, context: HandlerContext): Promise<Answer> =>
    reads(context, async () => rpc(request, context));
