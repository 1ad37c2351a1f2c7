import type { LeaseSettlement } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { BudgetKind, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import type { Sql } from '../db/sql.ts';
import { closed, freeRoomToKeep } from '../domain/lease.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { isOrganizationLimited, lockBudget, readTerms } from './budget.ts';
import { rememberedMs } from './lapse.ts';
import { changeLeases, type LeaseChange, type LeaseRow, lockLeases, readLeases } from './lease-row.ts';
import { addPosted, heldChange, readSpends, SpendSums, textOfKey } from './spend.ts';

type Database = Pick<ServiceDatabase, 'pool'>;
/** Leases by id, as they stand behind the settlement; those that are missing are unknown or somebody else's. */
type Settled = Map<string, LeaseRow>;

/** Takes what holders tell of their leases. A lease which is not held any more moves no room. */
export async function settleLeases(
  database: Database,
  holderId: string,
  settlements: readonly LeaseSettlement[],
  expiresAtMs: number,
  nowMs: number,
): Promise<Settled> {
  const settled: Settled = new Map();
  const kept = settlements.filter(({ keep }) => keep);
  if (kept.length > 0) {
    const times = { nowMs, expiresAtMs };
    const held = await sqlTransaction(database, (sql) => keepLeases(sql, holderId, kept, times));
    for (const lease of held) settled.set(lease.id, lease);
    for (const lease of await shrinkSlices(database, [...settled.values()], nowMs)) settled.set(lease.id, lease);
  }
  const given = new Map(settlements.filter(({ keep }) => !keep).map((row) => [row.leaseId.toLowerCase(), row]));
  for (const lease of await closeLeases(database, holderId, given, nowMs)) settled.set(lease.id, lease);
  return settled;
}

/** Kept leases in one statement, locked by id like all leases: their room stays, so that no budget changes. */
async function keepLeases(
  sql: Sql,
  holderId: string,
  settlements: readonly LeaseSettlement[],
  times: { nowMs: number; expiresAtMs: number },
): Promise<LeaseRow[]> {
  const { rows } = await sql.query<{ id: string }>({
    name: 'keep-leases',
    text: `
      with held as (
        select leases.tenant_id, leases.id, told.used, told.in_flight
        from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) as told (id, fencing_token, used, in_flight)
        join leases on leases.id = told.id and leases.fencing_token = told.fencing_token
        where leases.holder_id = $5 and leases.state = ${LeaseState.HELD}
        order by leases.id for update of leases
      )
      update leases set used_nano_usd = held.used, in_flight_nano_usd = held.in_flight, expires_at = $6, settled_at = $7
      from held where leases.tenant_id = held.tenant_id and leases.id = held.id
      returning leases.id`,
    values: [
      settlements.map(({ leaseId }) => leaseId),
      settlements.map(({ fencingToken }) => fencingToken),
      settlements.map(({ usedNanoUsd }) => usedNanoUsd),
      settlements.map(({ inFlightNanoUsd }) => inFlightNanoUsd),
      holderId,
      new Date(times.expiresAtMs),
      new Date(times.nowMs),
    ],
  });
  return readLeases(
    sql,
    rows.map(({ id }) => id),
  );
}

/** Takes free room back from slices of budgets that have come near their limits. */
async function shrinkSlices(database: Database, leases: readonly LeaseRow[], nowMs: number): Promise<LeaseRow[]> {
  const shrunk: LeaseRow[] = [];
  const free = leases.filter((lease) => !lease.central && freeIn(lease) > 0n);
  for (const slices of byBudget(await nearTheirLimits(database.pool, free))) {
    const after = await sqlTransaction(database, (sql) => shrink(sql, slices, nowMs));
    shrunk.push(...after);
  }
  return shrunk;
}

/**
 * Leaves out slices of keys which are far from their caps, by one look without locks at all of them: most are. A key that comes near
 * its cap a moment later is found by the next settlement, for which whoever wants its room waits.
 */
async function nearTheirLimits(sql: Sql, slices: readonly LeaseRow[]): Promise<LeaseRow[]> {
  const spends = await readSpends(
    sql,
    slices.filter(({ kind }) => kind === BudgetKind.API_KEY),
  );
  return slices.filter((lease) => {
    const spend = spends.get(lease.subjectId)?.find(({ periodStart }) => periodStart === lease.periodStart);
    if (lease.limitNanoUsd === null || spend === undefined) return true;
    const free = freeIn(lease);
    return freeRoomToKeep({ limitNanoUsd: lease.limitNanoUsd, ...spend }, free) < free;
  });
}

async function shrink(sql: Sql, slices: readonly LeaseRow[], nowMs: number): Promise<LeaseRow[]> {
  const [first] = slices;
  const terms = await readTerms(sql, first!.tenantId, first!.kind === BudgetKind.USER ? first!.subjectId : '');
  if (first!.kind === BudgetKind.ORGANIZATION && !isOrganizationLimited(terms)) return [];
  let budget = await lockBudget(sql, { budget: first!, keyLimitNanoUsd: first!.limitNanoUsd, terms }, nowMs);
  const changes: LeaseChange[] = [];
  for (const lease of await lockLeases(
    sql,
    slices.map(({ id }) => id),
  )) {
    const free = freeIn(lease);
    if (lease.state !== LeaseState.HELD || free <= 0n) continue;
    const keep = freeRoomToKeep(budget, free);
    if (keep >= free) continue;
    const smaller = { ...lease, roomNanoUsd: lease.roomNanoUsd - (free - keep) };
    budget = { ...budget, heldNanoUsd: budget.heldNanoUsd + heldChange(lease, smaller) };
    changes.push({ before: lease, after: smaller });
  }
  await changeLeases(sql, changes);
  return changes.map(({ after }) => after);
}

const freeIn = (lease: LeaseRow): bigint => lease.roomNanoUsd - lease.usedNanoUsd - lease.inFlightNanoUsd;

/** Leases given back: what was used, or may still be, stays held until it is charged. */
async function closeLeases(
  database: Database,
  holderId: string,
  settlements: ReadonlyMap<string, LeaseSettlement>,
  nowMs: number,
): Promise<LeaseRow[]> {
  if (settlements.size === 0) return [];
  const known = (await readLeases(database.pool, [...settlements.keys()])).filter((row) => row.holderId === holderId);
  const after: LeaseRow[] = [];
  const ofAccounts = known.filter(({ kind }) => kind === BudgetKind.ORGANIZATION);
  const ofSpend = known.filter(({ kind }) => kind !== BudgetKind.ORGANIZATION);
  for (const leases of byBudget(ofAccounts)) {
    after.push(
      ...(await sqlTransaction(database, async (sql) => {
        await lockAccount(sql, leases[0]!.tenantId);
        return close(sql, leases, settlements, nowMs);
      })),
    );
  }
  // All keys and users at once: a process may hold leases of ten thousand.
  if (ofSpend.length > 0) {
    after.push(
      ...(await sqlTransaction(database, async (sql) => {
        const nothing = new SpendSums();
        for (const lease of ofSpend) nothing.add(lease, 0n);
        await addPosted(sql, nothing);
        return close(sql, ofSpend, settlements, nowMs);
      })),
    );
  }
  return after;
}

/** Closes leases whose budgets are locked. */
async function close(
  sql: Sql,
  leases: readonly LeaseRow[],
  settlements: ReadonlyMap<string, LeaseSettlement>,
  nowMs: number,
): Promise<LeaseRow[]> {
  const locked = await lockLeases(
    sql,
    leases.map(({ id }) => id),
  );
  const changes = locked.map((before) => ({ before, after: closedBy(before, settlements.get(before.id)!, nowMs) }));
  await changeLeases(sql, changes);
  return changes.map(({ after }) => after);
}

function closedBy(lease: LeaseRow, told: LeaseSettlement, nowMs: number): LeaseRow {
  if (lease.fencingToken !== told.fencingToken || lease.state === LeaseState.LAPSED) return lease;
  const after = closed(lease, told.usedNanoUsd, told.inFlightNanoUsd);
  // A closed lease takes no more room than before, whatever comes late.
  if (lease.state === LeaseState.CLOSED && after.roomNanoUsd >= lease.roomNanoUsd) return lease;
  return { ...after, state: LeaseState.CLOSED, expiresAtMs: nowMs + rememberedMs };
}

/** Leases by the row that must be locked for them, in the order of locks. */
function byBudget(leases: readonly LeaseRow[]): LeaseRow[][] {
  return [...Map.groupBy(leases, textOfKey).values()];
}
