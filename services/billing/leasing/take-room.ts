import type { LeaseRequest } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { BudgetKind, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import type { Sql } from '../db/sql.ts';
import { type BudgetState, grantedRoom, heldBy, type LeaseTerms, remainingIn } from '../domain/lease.ts';
import { isOrganizationLimited, lockBudget, periodAt, type Terms } from './budget.ts';
import { asLapsed } from './lapse.ts';
import {
  type BudgetOfLease,
  type LeaseRow,
  lockLeases,
  lockOverdueLeases,
  recallableRoom,
  saveLeases,
} from './lease-row.ts';
import { changeHeld, heldChange } from './spend.ts';

/** A demand for room in a budget that has a limit. */
export type LimitedDemand = BudgetOfLease & { leaseId: string; keyLimitNanoUsd: bigint | null; sliceNanoUsd: bigint };

export type Taken =
  | { granted: LeaseRow[] }
  /** Without room in this budget; `recallable` when slices of it may give some back. */
  | { refused: LimitedDemand; recallable: boolean };

/** The demands of a request whose budgets have limits, in the order in which they were made. */
export function limitedDemands(request: LeaseRequest, terms: Terms, nowMs: number): LimitedDemand[] {
  const { tenantId, userId, apiKeyId } = request;
  const isLimited = (kind: BudgetKind): boolean =>
    kind === BudgetKind.API_KEY ||
    (kind === BudgetKind.USER ? terms.userLimitNanoUsd !== null : isOrganizationLimited(terms));
  return request.demands
    .filter(({ kind }) => isLimited(kind))
    .map(({ kind, leaseId, limitNanoUsd, sliceNanoUsd }) => ({
      tenantId,
      kind,
      subjectId: kind === BudgetKind.API_KEY ? apiKeyId : kind === BudgetKind.USER ? userId : tenantId,
      periodStart: periodAt(kind, nowMs),
      leaseId: leaseId.toLowerCase(),
      keyLimitNanoUsd: limitNanoUsd ?? null,
      sliceNanoUsd,
    }));
}

/** Takes room in all budgets or in none, in the caller's transaction. */
export async function takeRoom(
  sql: Sql,
  demands: readonly LimitedDemand[],
  request: Pick<LeaseRequest, 'holderId' | 'costMaxNanoUsd' | 'costMinNanoUsd'>,
  options: { terms: Terms; nowMs: number; expiresAtMs: number },
): Promise<Taken> {
  const { terms, nowMs } = options;
  const budgets = new Map<LimitedDemand, BudgetState>();
  // The account goes before rows of spend in the order of locks, and a key's row before its user's.
  for (const demand of [...demands].sort(byLockOrder)) {
    budgets.set(demand, await lockBudget(sql, demand, { keyLimitNanoUsd: demand.keyLimitNanoUsd, terms }, nowMs));
  }
  const kept = new Map(
    (
      await lockLeases(
        sql,
        demands.map(({ leaseId }) => leaseId),
      )
    ).map((lease) => [lease.id, lease]),
  );

  const granted: LeaseRow[] = [];
  for (const demand of demands) {
    const budget = await withoutOverdue(sql, demand, budgets.get(demand)!, nowMs);
    const earlier = kept.get(demand.leaseId);
    const lease =
      earlier !== undefined && isStillHeld(earlier, request.holderId, nowMs)
        ? earlier
        : newLease(demand, budget, request, options, earlier);
    if (lease === null) return { refused: demand, recallable: await isRecallable(sql, demand, budget, nowMs) };
    granted.push(lease);
  }
  await saveLeases(sql, granted);
  await changeHeld(
    sql,
    granted.map((lease) => ({ lease, changeNanoUsd: heldChange(kept.get(lease.id) ?? null, lease) })),
  );
  return { granted };
}

const byLockOrder = (a: LimitedDemand, b: LimitedDemand): number => lockRank(a.kind) - lockRank(b.kind);
const lockRank = (kind: BudgetKind): number => (kind === BudgetKind.ORGANIZATION ? 0 : kind);

/** The same id asked again: the answer was lost, so it is given again. */
const isStillHeld = (lease: LeaseRow, holderId: string, nowMs: number): boolean =>
  lease.state === LeaseState.HELD && lease.holderId === holderId.toLowerCase() && lease.expiresAtMs > nowMs;

function newLease(
  demand: LimitedDemand,
  budget: BudgetState,
  request: Pick<LeaseRequest, 'holderId'> & Omit<LeaseTerms, 'sliceNanoUsd'>,
  times: { nowMs: number; expiresAtMs: number },
  earlier: LeaseRow | undefined,
): LeaseRow | null {
  const { tenantId, kind, subjectId, periodStart, leaseId, keyLimitNanoUsd, sliceNanoUsd } = demand;
  const { costMaxNanoUsd, costMinNanoUsd } = request;
  const room = grantedRoom(budget, { costMaxNanoUsd, costMinNanoUsd, sliceNanoUsd });
  if (room === null) return null;
  return {
    tenantId,
    id: leaseId,
    kind,
    subjectId,
    periodStart,
    holderId: request.holderId,
    fencingToken: earlier === undefined ? 1n : earlier.fencingToken + 1n,
    limitNanoUsd: keyLimitNanoUsd,
    ...room,
    usedNanoUsd: 0n,
    // The call which asks is the first to run under it.
    inFlightNanoUsd: room.central ? room.roomNanoUsd : costMaxNanoUsd,
    chargedNanoUsd: 0n,
    state: LeaseState.HELD,
    settledAtMs: times.nowMs,
    expiresAtMs: times.expiresAtMs,
  };
}

/** The budget once leases that were not settled in time have given back what nobody is known to have used. */
async function withoutOverdue(
  sql: Sql,
  demand: LimitedDemand,
  budget: BudgetState,
  nowMs: number,
): Promise<BudgetState> {
  const overdue = await lockOverdueLeases(sql, demand, nowMs);
  if (overdue.length === 0) return budget;
  const after = overdue.map((lease) => asLapsed(lease, nowMs));
  await saveLeases(sql, after);
  await changeHeld(
    sql,
    after.map((lease, index) => ({ lease, changeNanoUsd: heldChange(overdue[index]!, lease) })),
  );
  const freed = overdue.reduce((sum, lease, index) => sum + heldBy(lease) - heldBy(after[index]!), 0n);
  return { ...budget, heldNanoUsd: budget.heldNanoUsd - freed };
}

async function isRecallable(sql: Sql, demand: LimitedDemand, budget: BudgetState, nowMs: number): Promise<boolean> {
  const { roomNanoUsd } = await recallableRoom(sql, demand, nowMs);
  return roomNanoUsd > 0n && remainingIn(budget) + roomNanoUsd > 0n;
}
