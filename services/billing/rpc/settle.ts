import { LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { larger } from '../domain/amounts.ts';
import { lateMs } from '../leasing/lapse.ts';
import { timeToLiveMs } from '../leasing/room-batches.ts';
import { settleLeases } from '../leasing/settle-leases.ts';
import { leaseMessage } from './lease.ts';

/** How long a holder that does not say waits for the answer, in milliseconds. */
const patienceMsDefault = 1_000;

export const settle =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'settle'> =>
  async ({ holderId, settlements, timeToLive }, context) => {
    requireService(callerOf(context));
    const nowMs = await databaseNow(database.pool);
    const expiresAtMs = nowMs + timeToLiveMs(timeToLive) + lateMs;
    const patienceMs = context.timeoutMs() ?? patienceMsDefault;
    const times = { nowMs, expiresAtMs };
    const settled = await settleLeases(database, holderId.toLowerCase(), settlements, times, patienceMs);
    return {
      leases: settlements.map(({ leaseId, fencingToken }) => {
        const lease = settled.get(leaseId.toLowerCase());
        // A lease missing from the answer was not held under this number: it is unknown, lapsed, or was given anew.
        const isSame = lease !== undefined && lease.fencingToken === fencingToken;
        const state = isSame ? lease.state : LeaseState.LAPSED;
        const held = state === LeaseState.HELD ? leaseMessage(lease!, nowMs) : undefined;
        const used = isSame ? larger(lease.usedNanoUsd, lease.chargedNanoUsd) : 0n;
        return { leaseId, state, lease: held, usedNanoUsd: used };
      }),
    };
  };
