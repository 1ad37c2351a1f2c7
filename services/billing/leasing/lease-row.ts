import { NIL } from 'uuid';
import { BudgetKind, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { plainArray, type Sql } from '#shared/db/sql.ts';
import { heldBy, type LeaseAmounts } from '../domain/lease.ts';
import { lateMs, rememberedMs } from './lapse.ts';
import { arraysOf, type BudgetKey, changeHeld, SpendSums } from './spend.ts';

/** A lease, with the budget that it is part of. */
export type LeaseRow = LeaseAmounts &
  BudgetKey & {
    id: string;
    holderId: string;
    fencingToken: bigint;
    central: boolean;
    /** A key's cap as its holder knew it. */
    limitNanoUsd: bigint | null;
    state: LeaseState;
    /** When its room was found. */
    grantedAtMs: number;
    /** When its holder last reported on it. */
    settledAtMs: number;
    expiresAtMs: number;
  };

type Stored = {
  tenant_id: string;
  id: string;
  kind: BudgetKind;
  subject_id: string;
  period_start: string;
  holder_id: string;
  fencing_token: bigint;
  central: boolean;
  limit_nano_usd: bigint | null;
  room_nano_usd: bigint;
  used_nano_usd: bigint;
  in_flight_nano_usd: bigint;
  charged_nano_usd: bigint;
  state: LeaseState;
  granted_at: Date;
  settled_at: Date;
  expires_at: Date;
};

const leaseRow = (row: Stored): LeaseRow => ({
  tenantId: row.tenant_id,
  id: row.id,
  kind: row.kind,
  subjectId: row.subject_id,
  periodStart: row.period_start,
  holderId: row.holder_id,
  fencingToken: row.fencing_token,
  central: row.central,
  limitNanoUsd: row.limit_nano_usd,
  roomNanoUsd: row.room_nano_usd,
  usedNanoUsd: row.used_nano_usd,
  inFlightNanoUsd: row.in_flight_nano_usd,
  chargedNanoUsd: row.charged_nano_usd,
  state: row.state,
  grantedAtMs: row.granted_at.getTime(),
  settledAtMs: row.settled_at.getTime(),
  expiresAtMs: row.expires_at.getTime(),
});

/** Listed by name: a statement prepared for all columns fails once there is a new one. */
const columns = `leases.tenant_id, leases.id, leases.kind, leases.subject_id, leases.period_start, holder_id, fencing_token, central,
  limit_nano_usd, room_nano_usd, used_nano_usd, in_flight_nano_usd, charged_nano_usd, state, granted_at, settled_at, expires_at`;

/** Reads leases without locking them. Whose budget they are part of never changes. */
export async function readLeases(sql: Sql, ids: readonly string[]): Promise<LeaseRow[]> {
  const { rows } = await sql.query<Stored>({
    name: 'read-leases',
    text: `select ${columns} from leases where id = any($1::uuid[])`,
    values: [ids],
  });
  return rows.map(leaseRow);
}

/** Locks leases, by id; the rows of their budgets must be locked already. */
export async function lockLeases(sql: Sql, ids: readonly string[]): Promise<LeaseRow[]> {
  const { rows } = await sql.query<Stored>({
    name: 'lock-leases',
    text: `select ${columns} from leases where id = any($1::uuid[]) order by id for update`,
    values: [ids],
  });
  return rows.map(leaseRow);
}

/** Locks the leases of budgets that were not settled in time, by id. */
export async function lockOverdueLeases(sql: Sql, budgets: readonly BudgetKey[], nowMs: number): Promise<LeaseRow[]> {
  const { rows } = await sql.query<Stored>({
    name: 'lock-overdue-leases',
    text: `
      select ${columns} from (select distinct * from unnest($1::uuid[], $2::smallint[], $3::uuid[], $4::date[]))
        as asked (tenant_id, kind, subject_id, period_start)
      join leases using (tenant_id, kind, subject_id, period_start)
      where leases.state = ${LeaseState.HELD} and leases.expires_at <= $5
      order by leases.id for update of leases`,
    values: [...arraysOf(budgets), new Date(nowMs)],
  });
  return rows.map(leaseRow);
}

/**
 * How much of a budget is held and not used: by slices of holders in touch, which may give it back, and by all, calls and jobs with holds of
 * their own included; and when the one of those slices that has been unsettled for longest was last settled.
 */
export async function unusedRoom(
  sql: Sql,
  budget: BudgetKey,
  nowMs: number,
): Promise<{ ofSlicesNanoUsd: bigint; ofAllNanoUsd: bigint; settledAtMs: number }> {
  const { rows } = await sql.query<{ of_slices: bigint; of_all: bigint; settled_at: Date | null }>({
    name: 'unused-room',
    text: `
      select coalesce(sum(unused) filter (where recallable), 0)::bigint as of_slices, coalesce(sum(unused), 0)::bigint as of_all,
        min(settled_at) filter (where recallable) as settled_at
      from (
        select room_nano_usd - greatest(used_nano_usd, charged_nano_usd) as unused, not central and expires_at > $5 as recallable,
          settled_at
        from leases where tenant_id = $1 and kind = $2 and subject_id = $3 and state = ${LeaseState.HELD}
          and period_start = $4 and room_nano_usd > greatest(used_nano_usd, charged_nano_usd)
      ) as held`,
    values: [budget.tenantId, budget.kind, budget.subjectId, budget.periodStart, new Date(nowMs + lateMs)],
  });
  const { of_slices, of_all, settled_at } = rows[0]!;
  return {
    ofSlicesNanoUsd: of_slices,
    ofAllNanoUsd: of_all,
    settledAtMs: settled_at?.getTime() ?? Number.POSITIVE_INFINITY,
  };
}

/**
 * How much of a budget is held for calls and jobs with holds of their own, by the first of some moments, in order, that came after their
 * room was found. Overdue holds are left out: they are about to lapse.
 */
export async function heldBefore(
  sql: Sql,
  budget: BudgetKey,
  momentsMs: readonly number[],
  nowMs: number,
): Promise<bigint[]> {
  const { rows } = await sql.query<{ place: number; held: bigint }>({
    name: 'held-before',
    text: `
      select (select count(*) from unnest($5::timestamptz[]) as moment (at) where moment.at <= granted_at)::integer as place,
        sum(room_nano_usd - charged_nano_usd)::bigint as held
      from leases where tenant_id = $1 and kind = $2 and subject_id = $3 and state = ${LeaseState.HELD}
        and period_start = $4 and expires_at > $6 and central and room_nano_usd > charged_nano_usd
      group by place`,
    values: [
      budget.tenantId,
      budget.kind,
      budget.subjectId,
      budget.periodStart,
      plainArray(momentsMs.map((ms) => new Date(ms).toISOString())),
      new Date(nowMs),
    ],
  });
  const held = new Map(rows.map((row) => [row.place, row.held]));
  return momentsMs.map((_, place) => held.get(place) ?? 0n);
}

/**
 * Records leases that their holder gave up without knowing whether they were granted: those that do not exist yet are stored as given back,
 * without a budget, so that a grant about to be written collides with their ids. Waits for a grant that is being written.
 */
export async function forbidLeases(
  database: Pick<ServiceDatabase, 'query'>,
  { holderId, ids, nowMs }: { holderId: string; ids: readonly string[]; nowMs: number },
): Promise<void> {
  await database.query({
    name: 'forbid-leases',
    text: `
      insert into leases (tenant_id, id, kind, subject_id, period_start, holder_id, central, room_nano_usd, state,
        settled_at, expires_at)
      select '${NIL}', id, ${BudgetKind.API_KEY}, '${NIL}', $3::timestamptz at time zone 'UTC', $2, true, 0,
        ${LeaseState.CLOSED}, $3, $4
      from unnest($1::uuid[]) as id
      on conflict do nothing`,
    values: [ids, holderId, new Date(nowMs), new Date(nowMs + rememberedMs)],
  });
}

/** A lease as it was, null for a new one, and as it is to be. */
export type LeaseChange = { before: LeaseRow | null; after: LeaseRow };

/** Writes leases, and adjusts what they occupy in their budgets, whose rows are locked. */
export async function changeLeases(sql: Sql, changes: readonly LeaseChange[]): Promise<void> {
  await saveLeases(
    sql,
    changes.map(({ after }) => after),
  );
  const held = new SpendSums();
  for (const { before, after } of changes) {
    // A lease that is given anew may be of another period than before.
    if (before !== null) held.add(before, -heldBy(before));
    held.add(after, heldBy(after));
  }
  await changeHeld(sql, held);
}

async function saveLeases(sql: Sql, leases: readonly LeaseRow[]): Promise<void> {
  if (leases.length === 0) return;
  await sql.query({
    name: 'save-leases',
    text: `
      insert into leases as kept (tenant_id, id, kind, subject_id, period_start, holder_id, fencing_token, central,
        limit_nano_usd, room_nano_usd, used_nano_usd, in_flight_nano_usd, charged_nano_usd, state, granted_at, settled_at,
        expires_at)
      select * from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::uuid[], $5::date[], $6::uuid[], $7::bigint[],
        $8::boolean[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::smallint[],
        $15::timestamptz[], $16::timestamptz[], $17::timestamptz[])
      on conflict (tenant_id, id) do update set period_start = excluded.period_start, central = excluded.central,
        fencing_token = excluded.fencing_token, limit_nano_usd = excluded.limit_nano_usd,
        room_nano_usd = excluded.room_nano_usd, used_nano_usd = excluded.used_nano_usd,
        in_flight_nano_usd = excluded.in_flight_nano_usd, charged_nano_usd = excluded.charged_nano_usd,
        state = excluded.state, granted_at = excluded.granted_at, settled_at = excluded.settled_at, expires_at = excluded.expires_at`,
    values: [
      plainArray(leases.map((lease) => lease.tenantId)),
      plainArray(leases.map((lease) => lease.id)),
      plainArray(leases.map((lease) => lease.kind)),
      plainArray(leases.map((lease) => lease.subjectId)),
      plainArray(leases.map((lease) => lease.periodStart)),
      plainArray(leases.map((lease) => lease.holderId)),
      plainArray(leases.map((lease) => lease.fencingToken)),
      plainArray(leases.map((lease) => lease.central)),
      plainArray(leases.map((lease) => lease.limitNanoUsd)),
      plainArray(leases.map((lease) => lease.roomNanoUsd)),
      plainArray(leases.map((lease) => lease.usedNanoUsd)),
      plainArray(leases.map((lease) => lease.inFlightNanoUsd)),
      plainArray(leases.map((lease) => lease.chargedNanoUsd)),
      plainArray(leases.map((lease) => lease.state)),
      plainArray(leases.map((lease) => new Date(lease.grantedAtMs).toISOString())),
      plainArray(leases.map((lease) => new Date(lease.settledAtMs).toISOString())),
      plainArray(leases.map((lease) => new Date(lease.expiresAtMs).toISOString())),
    ],
  });
}
