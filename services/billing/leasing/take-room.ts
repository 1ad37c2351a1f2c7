import type { LeaseRequest } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { BudgetKind, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import { type BudgetState, grantedRoom, heldBy, type LeaseTerms, remainingIn } from '../domain/lease.ts';
import { isOrganizationLimited, type LimitedBudget, lockBudgets, periodAt, type Terms } from './budget.ts';
import { asLapsed, lateMs } from './lapse.ts';
import { changeLeases, type LeaseRow, lockLeases, lockOverdueLeases } from './lease-row.ts';
import { type BudgetKey, textOfKey } from './spend.ts';

/** A demand for room in a budget that has a limit. */
type LimitedDemand = LimitedBudget & { leaseId: string; sliceNanoUsd: bigint };

/** What one request asks for: room in all of these budgets, or in none. */
type RoomRequest = Pick<LeaseRequest, 'holderId' | 'costMaxNanoUsd' | 'costMinNanoUsd'> & {
  demands: readonly LimitedDemand[];
  timeToLiveMs: number;
};

/** The budget without room, what is left in it (nothing, or less than nothing), and what is held of it. */
export type Refused = { refused: BudgetKey; remainingNanoUsd: bigint; heldNanoUsd: bigint };

export type Taken =
  | { granted: readonly LeaseRow[] }
  | Refused
  /** The lease was given back already: its holder gave up waiting, or got it by another request that was answered sooner. */
  | { givenUp: true };

/** The demands of a request on budgets that have limits, in their original order. */
export function limitedDemands(request: LeaseRequest, terms: Terms, nowMs: number): LimitedDemand[] {
  const tenantId = request.tenantId.toLowerCase();
  const subjectOf = (kind: BudgetKind): string => {
    if (kind === BudgetKind.ORGANIZATION) return tenantId;
    return (kind === BudgetKind.API_KEY ? request.apiKeyId : request.userId).toLowerCase();
  };
  const isLimited = (kind: BudgetKind): boolean =>
    kind === BudgetKind.API_KEY ||
    (kind === BudgetKind.USER ? terms.userLimitNanoUsd !== null : isOrganizationLimited(terms));
  return request.demands
    .filter(({ kind }) => isLimited(kind))
    .map(({ kind, leaseId, limitNanoUsd, sliceNanoUsd }) => ({
      budget: { tenantId, kind, subjectId: subjectOf(kind), periodStart: periodAt(kind, nowMs) },
      keyLimitNanoUsd: limitNanoUsd ?? null,
      terms,
      leaseId: leaseId.toLowerCase(),
      sliceNanoUsd,
    }));
}

/** Takes room for requests, one after the other, in the caller's transaction. Leases that were not settled in time lapse first. */
export async function takeRoom(sql: Sql, requests: readonly RoomRequest[], nowMs: number): Promise<Taken[]> {
  const demands = requests.flatMap((request) => request.demands);
  const untilMs = nowMs + Math.max(0, ...requests.map(({ timeToLiveMs }) => timeToLiveMs));
  const states = await lockBudgets(sql, demands, { nowMs, untilMs });
  const stateOf = new Map(demands.map((demand, index) => [demand, states[index]!]));
  const kept = await lockLeases(
    sql,
    demands.map(({ leaseId }) => leaseId),
  );
  const overdue = await lockOverdueLeases(
    sql,
    demands.map(({ budget }) => budget),
    nowMs,
  );
  const leases = new Leases([...kept, ...overdue]);
  for (const lease of overdue) leases.set(asLapsed(lease, nowMs));
  const taken = requests.map((request): Taken => {
    const granted: LeaseRow[] = [];
    for (const demand of request.demands) {
      const state = leases.budgetNow(demand.budget, stateOf.get(demand)!);
      const earlier = leases.get(demand.leaseId);
      if (earlier?.state === LeaseState.CLOSED) return { givenUp: true };
      const lease =
        earlier !== undefined && isStillHeld(earlier, request.holderId, nowMs)
          ? earlier
          : newLease(demand, state, request, { nowMs, fencingToken: (earlier?.fencingToken ?? 0n) + 1n });
      if (lease === null) {
        return { refused: demand.budget, remainingNanoUsd: remainingIn(state), heldNanoUsd: state.heldNanoUsd };
      }
      granted.push(lease);
    }
    for (const lease of granted) leases.set(lease);
    return { granted };
  });
  await leases.save(sql);
  return taken;
}

/** The leases of locked budgets, as they are and as they are to be. */
class Leases {
  readonly #before: ReadonlyMap<string, LeaseRow>;
  readonly #after = new Map<string, LeaseRow>();
  /** By budget, how much more its leases hold than before. */
  readonly #heldMore = new Map<string, bigint>();

  constructor(before: readonly LeaseRow[]) {
    this.#before = new Map(before.map((lease) => [lease.id, lease]));
  }

  get(id: string): LeaseRow | undefined {
    return this.#after.get(id) ?? this.#before.get(id);
  }

  set(lease: LeaseRow): void {
    const before = this.get(lease.id);
    if (before !== undefined) this.#holdMore(before, -heldBy(before));
    this.#holdMore(lease, heldBy(lease));
    this.#after.set(lease.id, lease);
  }

  #holdMore(budget: BudgetKey, amountNanoUsd: bigint): void {
    const key = textOfKey(budget);
    this.#heldMore.set(key, (this.#heldMore.get(key) ?? 0n) + amountNanoUsd);
  }

  budgetNow(budget: BudgetKey, before: BudgetState): BudgetState {
    return { ...before, heldNanoUsd: before.heldNanoUsd + (this.#heldMore.get(textOfKey(budget)) ?? 0n) };
  }

  async save(sql: Sql): Promise<void> {
    await changeLeases(
      sql,
      [...this.#after.values()].map((after) => ({ before: this.#before.get(after.id) ?? null, after })),
    );
  }
}

/** The same id is asked for again because the answer was lost, so it is given again. */
const isStillHeld = (lease: LeaseRow, holderId: string, nowMs: number): boolean =>
  lease.state === LeaseState.HELD && lease.holderId === holderId.toLowerCase() && lease.expiresAtMs > nowMs;

function newLease(
  { budget, leaseId, keyLimitNanoUsd, sliceNanoUsd }: LimitedDemand,
  state: BudgetState,
  request: Pick<RoomRequest, 'holderId' | 'timeToLiveMs'> & Omit<LeaseTerms, 'sliceNanoUsd'>,
  { nowMs, fencingToken }: { nowMs: number; fencingToken: bigint },
): LeaseRow | null {
  const { costMaxNanoUsd, costMinNanoUsd } = request;
  const room = grantedRoom(state, { costMaxNanoUsd, costMinNanoUsd, sliceNanoUsd });
  if (room === null) return null;
  return {
    ...budget,
    id: leaseId,
    holderId: request.holderId.toLowerCase(),
    fencingToken,
    limitNanoUsd: keyLimitNanoUsd,
    ...room,
    usedNanoUsd: 0n,
    // The requesting call is the first to run under it.
    inFlightNanoUsd: room.central ? room.roomNanoUsd : costMaxNanoUsd,
    chargedNanoUsd: 0n,
    state: LeaseState.HELD,
    grantedAtMs: nowMs,
    settledAtMs: nowMs,
    expiresAtMs: nowMs + request.timeToLiveMs + lateMs,
  };
}
