import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { plainArray, type Sql } from '#shared/db/sql.ts';
import type { PeriodStart } from '../domain/period.ts';

/**
 * Whose budget (a key's, a user's or an organization's), and for which period. The spend of an organization is what exceeded its credit, by
 * month.
 */
export type BudgetKey = { tenantId: string; kind: BudgetKind; subjectId: string; periodStart: PeriodStart };

/** A budget's key in one text, for maps. */
export const textOfKey = ({ tenantId, kind, subjectId, periodStart }: BudgetKey): string =>
  `${tenantId} ${kind} ${subjectId} ${periodStart}`;

type Spend = { postedNanoUsd: bigint; heldNanoUsd: bigint };

/** Sums of amounts by their keys. */
export class SpendSums {
  // By subject, whose text exists already: a subject has few periods, so comparing them costs less than building a combined key.
  readonly #bySubject = new Map<string, (BudgetKey & { amountNanoUsd: bigint })[]>();

  add(key: BudgetKey, amountNanoUsd: bigint): void {
    const sums = this.#bySubject.get(key.subjectId);
    const sum = sums?.find(
      ({ kind, tenantId, periodStart }) =>
        kind === key.kind && tenantId === key.tenantId && periodStart === key.periodStart,
    );
    if (sum !== undefined) sum.amountNanoUsd += amountNanoUsd;
    else if (sums !== undefined) sums.push({ ...key, amountNanoUsd });
    else this.#bySubject.set(key.subjectId, [{ ...key, amountNanoUsd }]);
  }

  get all(): (BudgetKey & { amountNanoUsd: bigint })[] {
    return [...this.#bySubject.values()].flat();
  }
}

/** Keys in the form of the arrays that `unnest` takes. */
export const arraysOf = (keys: readonly BudgetKey[]): string[] => [
  plainArray(keys.map((key) => key.tenantId)),
  plainArray(keys.map((key) => key.kind)),
  plainArray(keys.map((key) => key.subjectId)),
  plainArray(keys.map((key) => key.periodStart)),
];

/** Adds what was posted, and locks the rows by their key, including those to which nothing is added. */
export async function addPosted(sql: Sql, sums: SpendSums): Promise<void> {
  const rows = sums.all;
  if (rows.length === 0) return;
  await sql.query({
    name: 'add-posted',
    text: `
      insert into spend as kept (tenant_id, kind, subject_id, period_start, posted_nano_usd)
      select * from unnest($1::uuid[], $2::smallint[], $3::uuid[], $4::date[], $5::bigint[])
        as added (tenant_id, kind, subject_id, period_start, posted_nano_usd)
      order by tenant_id, kind, subject_id, period_start
      on conflict (tenant_id, kind, subject_id, period_start) do update
      set posted_nano_usd = kept.posted_nano_usd + excluded.posted_nano_usd`,
    values: [...arraysOf(rows), plainArray(rows.map((row) => row.amountNanoUsd))],
  });
}

/** Locks rows by their key, creating those whose period is new; returns them in the order requested. */
export async function lockSpends(sql: Sql, keys: readonly BudgetKey[]): Promise<Spend[]> {
  if (keys.length === 0) return [];
  const values = arraysOf(keys);
  const select = () =>
    sql.query<{ place: bigint; posted_nano_usd: bigint; held_nano_usd: bigint }>({
      name: 'lock-spends',
      text: `
        select place, posted_nano_usd, held_nano_usd
        from unnest($1::uuid[], $2::smallint[], $3::uuid[], $4::date[]) with ordinality
          as wanted (tenant_id, kind, subject_id, period_start, place)
        join spend using (tenant_id, kind, subject_id, period_start)
        order by spend.tenant_id, spend.kind, spend.subject_id, spend.period_start for update of spend`,
      values,
    });
  let { rows } = await select();
  if (rows.length < keys.length) {
    await sql.query({
      name: 'add-spends',
      text: `
        insert into spend (tenant_id, kind, subject_id, period_start)
        select * from unnest($1::uuid[], $2::smallint[], $3::uuid[], $4::date[])
          as added (tenant_id, kind, subject_id, period_start)
        order by tenant_id, kind, subject_id, period_start
        on conflict do nothing`,
      values,
    });
    // These include the locks held already, in the same order.
    ({ rows } = await select());
  }
  const locked: Spend[] = [];
  for (const row of rows) {
    locked[Number(row.place) - 1] = { postedNanoUsd: row.posted_nano_usd, heldNanoUsd: row.held_nano_usd };
  }
  return locked;
}

/** The posted amount; 0 for a period without spend. */
export async function readPosted(sql: Sql, key: BudgetKey): Promise<bigint> {
  const { rows } = await sql.query<{ posted_nano_usd: bigint }>({
    name: 'read-posted',
    text: `
      select posted_nano_usd from spend
      where tenant_id = $1 and kind = $2 and subject_id = $3 and period_start = $4`,
    values: [key.tenantId, key.kind, key.subjectId, key.periodStart],
  });
  return rows[0]?.posted_nano_usd ?? 0n;
}

/** An organization's spend in a month, and the room held for all months; a part of it was held over from the month before. */
type MonthSpend = Spend & { heldOverNanoUsd: bigint };

/** Reads these for organizations; while their accounts are locked, nothing changes. */
export async function readMonths(
  sql: Sql,
  tenantIds: readonly string[],
  { month, lastMonth }: { month: PeriodStart; lastMonth: PeriodStart },
): Promise<Map<string, MonthSpend>> {
  const { rows } = await sql.query<{ tenant_id: string; posted: bigint; held: bigint; held_over: bigint }>({
    name: 'read-months',
    text: `
      select asked.tenant_id, coalesce(sum(posted_nano_usd) filter (where period_start = $2), 0)::bigint as posted,
        coalesce(sum(held_nano_usd), 0)::bigint as held,
        coalesce(sum(held_nano_usd) filter (where period_start = $3), 0)::bigint as held_over
      from unnest($1::uuid[]) as asked (tenant_id)
      left join spend on spend.tenant_id = asked.tenant_id and kind = ${BudgetKind.ORGANIZATION} and subject_id = asked.tenant_id
      group by asked.tenant_id`,
    values: [plainArray(tenantIds), month, lastMonth],
  });
  return new Map(
    rows.map((row) => [
      row.tenant_id,
      { postedNanoUsd: row.posted, heldNanoUsd: row.held, heldOverNanoUsd: row.held_over },
    ]),
  );
}

/** The current rows, by subject and without locks; nonexistent ones are missing. */
export async function readSpends(
  sql: Sql,
  keys: readonly BudgetKey[],
): Promise<Map<string, (Spend & { periodStart: PeriodStart })[]>> {
  if (keys.length === 0) return new Map();
  const { rows } = await sql.query<{
    subject_id: string;
    period_start: PeriodStart;
    posted_nano_usd: bigint;
    held_nano_usd: bigint;
  }>({
    name: 'read-spends',
    text: `
      select subject_id, period_start, posted_nano_usd, held_nano_usd
      from (select distinct * from unnest($1::uuid[], $2::smallint[], $3::uuid[], $4::date[]))
        as wanted (tenant_id, kind, subject_id, period_start)
      join spend using (tenant_id, kind, subject_id, period_start)`,
    values: arraysOf(keys),
  });
  return Map.groupBy(
    rows.map((row) => ({
      subjectId: row.subject_id,
      periodStart: row.period_start,
      postedNanoUsd: row.posted_nano_usd,
      heldNanoUsd: row.held_nano_usd,
    })),
    ({ subjectId }) => subjectId,
  );
}

/** Books changes of leases in their budgets, whose rows are locked. */
export async function changeHeld(sql: Sql, changes: SpendSums): Promise<void> {
  const rows = changes.all.filter(({ amountNanoUsd }) => amountNanoUsd !== 0n);
  if (rows.length === 0) return;
  await sql.query({
    name: 'change-held',
    text: `
      update spend set held_nano_usd = spend.held_nano_usd + changed.amount
      from unnest($1::uuid[], $2::smallint[], $3::uuid[], $4::date[], $5::bigint[])
        as changed (tenant_id, kind, subject_id, period_start, amount)
      where spend.tenant_id = changed.tenant_id and spend.kind = changed.kind
        and spend.subject_id = changed.subject_id and spend.period_start = changed.period_start`,
    values: [...arraysOf(rows), plainArray(rows.map((row) => row.amountNanoUsd))],
  });
}
