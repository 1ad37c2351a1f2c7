import { create } from '@bufbuild/protobuf';
import { LeaseSettlementSchema, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { readLeases } from '../leasing/lease-row.ts';
import type { PendingLeases } from '../leasing/pending-leases.ts';
import { settleLeases } from '../leasing/settle-leases.ts';

/** Gives leases back unused. Who has given up waiting for one may say so before it is granted here. */
export const releaseHold =
  (
    { database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>,
    pending: PendingLeases,
  ): BillingRpc<'releaseHold'> =>
  async (request, context) => {
    requireService(callerOf(context));
    const holderId = request.holderId.toLowerCase();
    const tokens = new Map(request.leases.map((lease) => [lease.leaseId.toLowerCase(), lease.fencingToken]));
    await pending.decided([...tokens.keys()]);
    const held = (await readLeases(database.pool, [...tokens.keys()])).filter(
      (lease) =>
        lease.holderId === holderId && lease.state === LeaseState.HELD && lease.fencingToken === tokens.get(lease.id),
    );
    const nowMs = await databaseNow(database.pool);
    const unused = held.map(({ id, fencingToken }) => create(LeaseSettlementSchema, { leaseId: id, fencingToken }));
    await settleLeases(database, holderId, unused, nowMs, nowMs);
    return { released: held.length };
  };
