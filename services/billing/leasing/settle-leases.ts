import type { LeaseSettlement } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { BudgetKind, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { isLockTimeout } from '#shared/db/errors.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { smaller } from '../domain/amounts.ts';
import { closed, freeRoomToKeep, heldBy } from '../domain/lease.ts';
import { lockBudget, lockRowsOf, readBudgets, readTerms } from './budget.ts';
import { lateMs, rememberedMs } from './lapse.ts';
import { changeLeases, type LeaseChange, type LeaseRow, lockLeases, readLeases } from './lease-row.ts';
import { textOfKey } from './spend.ts';

type Database = Pick<ServiceDatabase, 'pool'>;
/** Leases by id, as they are after the settlement; missing ones are unknown or somebody else's. */
type Settled = Map<string, LeaseRow>;
/** Runs work in a transaction; null: what it would lock was busy, and nothing was done. */
type InTime = <T>(work: (sql: Sql) => Promise<T>) => Promise<T | null>;

/** The part of its holder's patience that a settlement waits for locks in all, and the least time for one, in milliseconds. */
const waitingPart = 0.3;
const waitMsMin = 10;

/**
 * Records what holders report about their leases, while they wait for `patienceMs`. A lease that is no longer held moves no room. One that
 * stays locked, as its budget may, holds up none of the others: it stays held as it was, until its holder reports again.
 */
export async function settleLeases(
  database: Database,
  holderId: string,
  settlements: readonly LeaseSettlement[],
  times: SettlementTimes,
  patienceMs: number,
): Promise<Settled> {
  const settled: Settled = new Map();
  const inTime = transactionsInTime(database, patienceMs * waitingPart);
  const kept = byLeaseId(settlements.filter(({ keep }) => keep));
  if (kept.size > 0) {
    const known = (await readLeases(database.pool, [...kept.keys()])).filter((row) => row.holderId === holderId);
    for (const lease of known) if (lease.state === LeaseState.CLOSED) settled.set(lease.id, lease);
    const moves = known.map((lease) => moveToldBy(lease, kept.get(lease.id)!)).filter((move) => move !== null);
    const wanted = await takeRoomBack(database, moves, times, inTime);
    const told = moves.map(({ after }) => after);
    for (const lease of await keepLeases(database, told, wanted, times, inTime)) settled.set(lease.id, lease);
  }
  const given = byLeaseId(settlements.filter(({ keep }) => !keep));
  for (const lease of await closeLeases(database, holderId, given, times.nowMs, inTime)) settled.set(lease.id, lease);
  return settled;
}

function transactionsInTime(database: Database, waitMsMax: number): InTime {
  const untilMs = performance.now() + waitMsMax;
  return async (work) => {
    const lockTimeoutMs = Math.max(waitMsMin, Math.ceil(untilMs - performance.now()));
    try {
      return await sqlTransaction(database, work, { settings: { lock_timeout: lockTimeoutMs } });
    } catch (error) {
      if (isLockTimeout(error)) return null;
      throw error;
    }
  };
}

const byLeaseId = (settlements: readonly LeaseSettlement[]): Map<string, LeaseSettlement> =>
  new Map(settlements.map((told) => [told.leaseId.toLowerCase(), told]));

/** When leases are settled, and until when Billing holds those that are kept. */
type SettlementTimes = { nowMs: number; expiresAtMs: number };

/** A lease as it was, and as its holder uses it now. */
type Move = { before: LeaseRow; after: LeaseRow };

/** Null for a lease that is no longer held, or not under this number. */
function moveToldBy(lease: LeaseRow, told: LeaseSettlement): Move | null {
  if (lease.state !== LeaseState.HELD || lease.fencingToken !== told.fencingToken) return null;
  const { usedNanoUsd, inFlightNanoUsd, roomNanoUsd = lease.roomNanoUsd } = told;
  // Room never grows again: the report may come late, when the rest is somebody else's.
  const after = { ...lease, usedNanoUsd, inFlightNanoUsd, roomNanoUsd: smaller(lease.roomNanoUsd, roomNanoUsd) };
  return { before: lease, after };
}

/**
 * Keeps leases in one statement, locked by id like all leases: their room stays, so no budget changes. Those from which room is wanted do
 * not count as settled, since others are waiting for it. Those that stay locked are held until when they were.
 */
async function keepLeases(
  database: Database,
  told: readonly LeaseRow[],
  wanted: ReadonlyMap<string, bigint>,
  { nowMs, expiresAtMs }: SettlementTimes,
  inTime: InTime,
): Promise<LeaseRow[]> {
  if (told.length === 0) return [];
  const keep = (sql: Sql, busyOnes: '' | 'skip locked') =>
    sql.query<{ id: string }>({
      name: busyOnes === '' ? 'keep-leases' : 'keep-free-leases',
      text: `
        with held as (
          select leases.tenant_id, leases.id, told.used, told.in_flight, told.settled
          from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[])
            as told (id, fencing_token, used, in_flight, settled)
          join leases on leases.id = told.id and leases.fencing_token = told.fencing_token
          where leases.state = ${LeaseState.HELD}
          order by leases.id for update of leases ${busyOnes}
        )
        update leases set used_nano_usd = held.used, in_flight_nano_usd = held.in_flight, expires_at = $6,
          settled_at = case when held.settled then $7 else leases.settled_at end
        from held where leases.tenant_id = held.tenant_id and leases.id = held.id
        returning leases.id`,
      values: [
        told.map(({ id }) => id),
        told.map(({ fencingToken }) => fencingToken),
        told.map(({ usedNanoUsd }) => usedNanoUsd),
        told.map(({ inFlightNanoUsd }) => inFlightNanoUsd),
        told.map(({ id }) => !wanted.has(id)),
        new Date(expiresAtMs),
        new Date(nowMs),
      ],
    });
  const whole = await inTime((sql) => keep(sql, ''));
  const { rows } = whole ?? (await sqlTransaction(database, (sql) => keep(sql, 'skip locked')));
  const heldUntilMs = new Map(rows.map(({ id }) => [id, expiresAtMs]));
  if (whole === null) {
    const tokens = new Map(told.map(({ id, fencingToken }) => [id, fencingToken]));
    const missed = await readLeases(
      database.pool,
      [...tokens.keys()].filter((id) => !heldUntilMs.has(id)),
    );
    for (const { id, state, fencingToken, expiresAtMs } of missed) {
      if (state === LeaseState.HELD && fencingToken === tokens.get(id)) heldUntilMs.set(id, expiresAtMs);
    }
  }
  return told
    .filter(({ id }) => heldUntilMs.has(id))
    .map((lease) => ({
      ...lease,
      roomNanoUsd: wanted.get(lease.id) ?? lease.roomNanoUsd,
      expiresAtMs: heldUntilMs.get(lease.id)!,
    }));
}

/**
 * Takes the room that holders no longer need, and returns how much each should keep of those whose budgets have come near their limits, or
 * are busy. That room stays theirs until they confirm: they may have admitted calls under it meanwhile.
 */
async function takeRoomBack(
  database: Database,
  moves: readonly Move[],
  times: SettlementTimes,
  inTime: InTime,
): Promise<Map<string, bigint>> {
  const wanted = new Map<string, bigint>();
  const free = moves.filter(({ after }) => !after.central && freeIn(after) > 0n);
  const near = new Set(await nearTheirLimits(database.pool, free, times));
  const due = moves.filter((move) => isSmaller(move) || near.has(move));
  for (const ofBudget of Map.groupBy(due, ({ after }) => textOfKey(after)).values()) {
    const rooms = await inTime((sql) => takeRoomOf(sql, ofBudget, times));
    const busy = () => ofBudget.map(({ after }) => [after.id, after.roomNanoUsd] as const);
    for (const [id, roomNanoUsd] of rooms ?? busy()) wanted.set(id, roomNanoUsd);
  }
  return wanted;
}

/**
 * Leaves out slices of budgets that are far from their limits, which most are, by reading all without locks: a transaction for each of
 * hundreds of organizations would take longer than the next settlement is away. If one comes near its limit a moment later, the next
 * settlement finds it, and whoever wants its room waits for that; until then the slice holds what it held.
 */
async function nearTheirLimits(
  sql: Sql,
  moves: readonly Move[],
  { nowMs, expiresAtMs }: SettlementTimes,
): Promise<Move[]> {
  const asked = moves.map(({ after }) => ({ budget: after, keyLimitNanoUsd: after.limitNanoUsd }));
  const states = await readBudgets(sql, asked, { nowMs, untilMs: expiresAtMs - lateMs });
  return moves.filter(({ after }, index) => {
    const free = freeIn(after);
    return freeRoomToKeep(states[index]!, free) < free;
  });
}

/** `takeRoomBack` for leases of one budget, whose row it locks. */
async function takeRoomOf(
  sql: Sql,
  moves: readonly Move[],
  { nowMs, expiresAtMs }: SettlementTimes,
): Promise<Map<string, bigint>> {
  const wanted = new Map<string, bigint>();
  const [{ after: first }] = moves as [Move];
  const terms = await readTerms(sql, first.tenantId, first.kind === BudgetKind.USER ? first.subjectId : '');
  let budget = await lockBudget(
    sql,
    { budget: first, keyLimitNanoUsd: first.limitNanoUsd, terms },
    { nowMs, untilMs: expiresAtMs - lateMs },
  );
  const told = new Map(moves.map(({ after }) => [after.id, after]));
  const changes: LeaseChange[] = [];
  for (const before of await lockLeases(sql, [...told.keys()])) {
    const { fencingToken, usedNanoUsd, inFlightNanoUsd, roomNanoUsd } = told.get(before.id)!;
    if (before.state !== LeaseState.HELD || before.fencingToken !== fencingToken) continue;
    const after = { ...before, roomNanoUsd: smaller(before.roomNanoUsd, roomNanoUsd) };
    budget = { ...budget, heldNanoUsd: budget.heldNanoUsd + heldBy(after) - heldBy(before) };
    if (isSmaller({ before, after })) changes.push({ before, after });
    const free = after.central ? 0n : freeIn({ ...after, usedNanoUsd, inFlightNanoUsd });
    if (free <= 0n) continue;
    const smallest = { ...after, roomNanoUsd: after.roomNanoUsd - free + freeRoomToKeep(budget, free) };
    if (!isSmaller({ before: after, after: smallest })) continue;
    wanted.set(after.id, smallest.roomNanoUsd);
    budget = { ...budget, heldNanoUsd: budget.heldNanoUsd + heldBy(smallest) - heldBy(after) };
  }
  await changeLeases(sql, changes);
  return wanted;
}

const isSmaller = ({ before, after }: Move): boolean => after.roomNanoUsd < before.roomNanoUsd;
const freeIn = (lease: LeaseRow): bigint => lease.roomNanoUsd - lease.usedNanoUsd - lease.inFlightNanoUsd;

/** Leases that are given back: what was used, or may still be, stays held until it is charged. */
export async function closeLeases(
  database: Database,
  holderId: string,
  settlements: ReadonlyMap<string, LeaseSettlement>,
  nowMs: number,
  inTime: InTime = (work) => sqlTransaction(database, work),
): Promise<LeaseRow[]> {
  if (settlements.size === 0) return [];
  const known = (await readLeases(database.pool, [...settlements.keys()])).filter((row) => row.holderId === holderId);
  const after: LeaseRow[] = [];
  const closeSome = (leases: readonly LeaseRow[]) => inTime((sql) => close(sql, leases, settlements, nowMs));
  const ofAccounts = known.filter(({ kind }) => kind === BudgetKind.ORGANIZATION);
  const ofSpend = known.filter(({ kind }) => kind !== BudgetKind.ORGANIZATION);
  for (const leases of Map.groupBy(ofAccounts, textOfKey).values()) {
    after.push(...((await closeSome(leases)) ?? leases));
  }
  if (ofSpend.length === 0) return after;
  // All keys and users at once: a process may hold leases for ten thousand.
  const closed = await closeSome(ofSpend);
  if (closed !== null) return [...after, ...closed];
  for (const leases of Map.groupBy(ofSpend, ({ tenantId }) => tenantId).values()) {
    after.push(...((await closeSome(leases)) ?? leases));
  }
  return after;
}

async function close(
  sql: Sql,
  leases: readonly LeaseRow[],
  settlements: ReadonlyMap<string, LeaseSettlement>,
  nowMs: number,
): Promise<LeaseRow[]> {
  await lockRowsOf(sql, leases);
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
  // A closed lease never occupies more room than before, however late a report comes.
  if (lease.state === LeaseState.CLOSED && after.roomNanoUsd >= lease.roomNanoUsd) return lease;
  return { ...after, state: LeaseState.CLOSED, expiresAtMs: nowMs + rememberedMs };
}
