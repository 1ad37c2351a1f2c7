import { create } from '@bufbuild/protobuf';
import { LeaseSettlementSchema, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { forbidLeases, readLeases } from '../leasing/lease-row.ts';
import { closeLeases } from '../leasing/settle-leases.ts';

/**
 * Gives leases back unused. A holder that has given up waiting for a lease may call this before it is granted, here or by another process:
 * then it never is.
 */
export const releaseHold =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'releaseHold'> =>
  async (request, context) => {
    requireService(callerOf(context));
    const holderId = request.holderId.toLowerCase();
    const tokens = new Map(request.leases.map((lease) => [lease.leaseId.toLowerCase(), lease.fencingToken]));
    const ids = [...tokens.keys()];
    const nowMs = await databaseNow(database.pool);
    await forbidLeases(database, { holderId, ids, nowMs });
    const held = (await readLeases(database.pool, ids)).filter(
      (lease) =>
        lease.holderId === holderId && lease.state === LeaseState.HELD && lease.fencingToken === tokens.get(lease.id),
    );
    const unused = held.map(({ id, fencingToken }) => create(LeaseSettlementSchema, { leaseId: id, fencingToken }));
    await closeLeases(database, holderId, new Map(unused.map((told) => [told.leaseId, told])), nowMs);
    return { released: held.length };
  };
