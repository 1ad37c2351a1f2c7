import type { HandlerContext } from '@connectrpc/connect';
import pLimit from 'p-limit';
import { turnsByName } from '../turns-by-name.ts';
import { callerOf } from './caller.ts';

/** Each read takes two connections at most: the rest are for what model calls, jobs and sign-ins wait for. */
const readsAtOnce = 3;
const readsOfOneAtOnce = 2;
const waitingOfOneMax = 50;

/**
 * Runs a read when it is its caller's turn, unless the caller has left. `page`: which one of a file that is read page by page; those that
 * follow the first are never refused, which would break the file off.
 */
export type ReadTurns = <Result>(
  context: HandlerContext,
  read: () => Promise<Result>,
  page?: 'first' | 'next',
) => Promise<Result>;

/**
 * Few reads that may take long run at a time, fewer of one organization, and of its files one: a page takes a turn of the event loop, and
 * the next is read at once. Whoever asks for many waits for their own. If too many are waiting, further ones fail with RATE_LIMITED.
 */
export function createReadTurns(): ReadTurns {
  const turns = pLimit(readsAtOnce);
  const waiting = { max: waitingOfOneMax, what: 'reports and lists of your organization' };
  const turnsOf = turnsByName(readsOfOneAtOnce, waiting);
  const pageTurnsOf = turnsByName(1, waiting);

  return async (context, read, page) => {
    const { signal } = context;
    const { tenantId } = callerOf(context);
    const inTurn = () =>
      turns(async () => {
        signal.throwIfAborted();
        return read();
      });
    if (page === undefined) return turnsOf.run(tenantId, signal, inTurn);
    const isBegun = page === 'next';
    return pageTurnsOf.run(tenantId, signal, () => turnsOf.run(tenantId, signal, inTurn, true), isBegun);
  };
}

/** Makes each call of an RPC such a read. */
export const readInTurn =
  (reads: ReadTurns) =>
  <Request, Answer>(rpc: (request: Request, context: HandlerContext) => Promise<Answer> | Answer) =>
  (request: Request, context: HandlerContext): Promise<Answer> =>
    reads(context, async () => rpc(request, context));
