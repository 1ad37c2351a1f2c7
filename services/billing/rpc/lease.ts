import type { MessageInitShape } from '@bufbuild/protobuf';
import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { LeaseRequest, LeaseResponseSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { BudgetKind, type LeaseDemand, type LeaseSchema } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { cancelled, invalidRequest } from '#shared/errors.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { isCharged } from '../charging/charge-batch.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { smaller } from '../domain/amounts.ts';
import { startOfPeriodMs } from '../domain/period.ts';
import { resetsAtMs } from '../leasing/budget.ts';
import { lateMs } from '../leasing/lapse.ts';
import { type LeaseRow, unusedRoom } from '../leasing/lease-row.ts';
import { budgetRefusal } from '../leasing/refusal.ts';
import { createRoomBatches, type RoomBatches } from '../leasing/room-batches.ts';
import type { Refused } from '../leasing/take-room.ts';

/** How long nobody needs to ask again about a budget without a limit: a new limit applies on every edge after this time. */
const unlimitedMs = 3_000;

type Deps = Pick<BillingDeps, 'database' | 'databaseNow' | 'recalls'>;

export const lease = (deps: Deps): BillingRpc<'lease'> => {
  const rooms = createRoomBatches(deps);
  return async (request, context) => {
    requireService(callerOf(context));
    requireWellFormed(request);
    return leaseFor(deps, rooms, request);
  };
};

async function leaseFor(
  { database, databaseNow, recalls }: Deps,
  rooms: RoomBatches,
  request: LeaseRequest,
): Promise<MessageInitShape<typeof LeaseResponseSchema>> {
  const { tenantId, usageEventId } = request;
  if (usageEventId !== '' && (await isCharged(database.pool, { tenantId, usageEventId }))) {
    return { ...answer(request, [], await databaseNow(database.pool)), isCharged: true };
  }
  const first = await rooms.take(request);
  if ('givenUp' in first.taken) throw cancelled();
  if ('granted' in first.taken) return answer(request, first.taken.granted, first.nowMs);
  const { refused, remainingNanoUsd } = first.taken;
  const unused = () => unusedRoom(database.pool, refused, first.nowMs);
  const { ofSlicesNanoUsd, ofAllNanoUsd } = await unused();
  if (ofSlicesNanoUsd === 0n || remainingNanoUsd + ofSlicesNanoUsd <= 0n) {
    throw budgetRefusal(refused.kind, first, isOnlyHeld(first.taken, ofAllNanoUsd));
  }
  await recalls.wait(refused, first.nowMs, async () => (await unused()).settledAtMs);
  const { taken, terms, nowMs } = await rooms.take(request);
  if ('givenUp' in taken) throw cancelled();
  if ('granted' in taken) return answer(request, taken.granted, nowMs);
  const still = await unusedRoom(database.pool, taken.refused, nowMs);
  throw budgetRefusal(taken.refused.kind, { terms, nowMs }, isOnlyHeld(taken, still.ofAllNanoUsd));
}

/** Whether a full budget would have room without what leases hold of it and have not used. Jobs may hold credit that has ended since. */
const isOnlyHeld = ({ remainingNanoUsd, heldNanoUsd }: Refused, unusedNanoUsd: bigint): boolean =>
  remainingNanoUsd + smaller(unusedNanoUsd, heldNanoUsd) > 0n;

function requireWellFormed({ demands, apiKeyId }: LeaseRequest): void {
  if (new Set(demands.map(({ kind }) => kind)).size < demands.length) {
    throw invalidRequest('demands', 'Each kind of budget may be requested at most once.');
  }
  for (const { kind, limitNanoUsd } of demands) {
    if (kind !== BudgetKind.API_KEY) continue;
    if (apiKeyId === '')
      throw invalidRequest('api_key_id', 'A lease on the budget of an API key needs its `api_key_id`.');
    if (limitNanoUsd === undefined)
      throw invalidRequest('demands', 'A lease on the budget of an API key needs its `limit_nano_usd`.');
  }
}

/** The leases in the order of the demands; for a budget without a limit there is one that says so. */
function answer(
  request: LeaseRequest,
  granted: readonly LeaseRow[],
  nowMs: number,
): MessageInitShape<typeof LeaseResponseSchema> {
  const byId = new Map(granted.map((row) => [row.id, row]));
  const leases = request.demands.map((demand) => {
    const row = byId.get(demand.leaseId.toLowerCase());
    return row === undefined ? unlimitedLease(demand, nowMs) : leaseMessage(row, nowMs);
  });
  const costAllowedNanoUsd = granted
    .filter(({ central }) => central)
    .reduce((least, { roomNanoUsd }) => smaller(roomNanoUsd, least), request.costMaxNanoUsd);
  return { leases, costAllowedNanoUsd };
}

const unlimitedLease = ({ leaseId, kind }: LeaseDemand, nowMs: number): MessageInitShape<typeof LeaseSchema> => ({
  id: leaseId,
  kind,
  unlimited: true,
  expiresAt: timestampFromMs(nowMs + unlimitedMs),
  resetsAt: timestampFromMs(resetsAtMs(kind, nowMs)),
});

/**
 * A lease from its holder's point of view. Billing holds the room for longer, beyond the period if necessary, but by then the holder must
 * have settled, or asked anew.
 */
export function leaseMessage(row: LeaseRow, nowMs: number): MessageInitShape<typeof LeaseSchema> {
  const resetMs = resetsAtMs(row.kind, startOfPeriodMs(row.periodStart));
  const expiresAtMs = Math.min(row.expiresAtMs - lateMs, resetMs);
  return {
    id: row.id,
    kind: row.kind,
    fencingToken: row.fencingToken,
    heldNanoUsd: row.roomNanoUsd,
    central: row.central,
    expiresAt: timestampFromMs(expiresAtMs),
    timeToLive: durationFromMs(Math.max(0, Math.floor(expiresAtMs - nowMs))),
    resetsAt: timestampFromMs(resetMs),
  };
}
