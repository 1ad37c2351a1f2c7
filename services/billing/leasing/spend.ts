import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { plainArray, type Sql } from '../db/sql.ts';
import { heldBy, type LeaseAmounts } from '../domain/lease.ts';
import type { PeriodStart } from '../domain/period.ts';
import type { LeaseRow } from './lease-row.ts';

/** Whose spend, in which period. For an organization: what went beyond its credit, by month. */
export type SpendKey = { tenantId: string; kind: BudgetKind; subjectId: string; periodStart: PeriodStart };

export type Spend = { postedNanoUsd: bigint; heldNanoUsd: bigint };

/** Sums of amounts by their keys. */
export class SpendSums {
  // By subject, since its text is there already: a subject has few periods, and putting a whole key together costs more than to compare.
  readonly #bySubject = new Map<string, (SpendKey & { amountNanoUsd: bigint })[]>();

  add(key: SpendKey, amountNanoUsd: bigint): void {
    const sums = this.#bySubject.get(key.subjectId);
    const sum = sums?.find(
      ({ kind, tenantId, periodStart }) =>
        kind === key.kind && tenantId === key.tenantId && periodStart === key.periodStart,
    );
    if (sum !== undefined) sum.amountNanoUsd += amountNanoUsd;
    else if (sums !== undefined) sums.push({ ...key, amountNanoUsd });
    else this.#bySubject.set(key.subjectId, [{ ...key, amountNanoUsd }]);
  }

  get all(): (SpendKey & { amountNanoUsd: bigint })[] {
    return [...this.#bySubject.values()].flat();
  }
}

/** Adds what was posted, and locks the rows by their key: rows that nothing is added to are locked as well. */
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
    values: [
      plainArray(rows.map((row) => row.tenantId)),
      plainArray(rows.map((row) => row.kind)),
      plainArray(rows.map((row) => row.subjectId)),
      plainArray(rows.map((row) => row.periodStart)),
      plainArray(rows.map((row) => row.amountNanoUsd)),
    ],
  });
}

/** Locks one row, making it when the period is new. */
export async function lockSpend(sql: Sql, key: SpendKey): Promise<Spend> {
  const values = [key.tenantId, key.kind, key.subjectId, key.periodStart];
  const select = () =>
    sql.query<{ posted_nano_usd: bigint; held_nano_usd: bigint }>({
      name: 'lock-spend',
      text: `
        select posted_nano_usd, held_nano_usd from spend
        where tenant_id = $1 and kind = $2 and subject_id = $3 and period_start = $4 for update`,
      values,
    });
  let { rows } = await select();
  if (rows.length === 0) {
    await sql.query({
      name: 'add-spend',
      text: 'insert into spend (tenant_id, kind, subject_id, period_start) values ($1, $2, $3, $4) on conflict do nothing',
      values,
    });
    ({ rows } = await select());
  }
  return { postedNanoUsd: rows[0]!.posted_nano_usd, heldNanoUsd: rows[0]!.held_nano_usd };
}

/** What was posted; 0 for a period without spend. */
export async function readPosted(sql: Sql, key: SpendKey): Promise<bigint> {
  const { rows } = await sql.query<{ posted_nano_usd: bigint }>({
    name: 'read-posted',
    text: `
      select posted_nano_usd from spend
      where tenant_id = $1 and kind = $2 and subject_id = $3 and period_start = $4`,
    values: [key.tenantId, key.kind, key.subjectId, key.periodStart],
  });
  return rows[0]?.posted_nano_usd ?? 0n;
}

/** The given rows as they stand, by subject and without locks; those that are not there are missing. */
export async function readSpends(
  sql: Sql,
  keys: readonly SpendKey[],
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
      select spend.* from (select distinct * from unnest($1::uuid[], $2::smallint[], $3::uuid[], $4::date[]))
        as wanted (tenant_id, kind, subject_id, period_start)
      join spend using (tenant_id, kind, subject_id, period_start)`,
    values: [
      plainArray(keys.map((key) => key.tenantId)),
      plainArray(keys.map((key) => key.kind)),
      plainArray(keys.map((key) => key.subjectId)),
      plainArray(keys.map((key) => key.periodStart)),
    ],
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

/** What the change of a lease means for its budget: the room it takes up more, or less. */
export function heldChange(before: LeaseAmounts | null, after: LeaseAmounts): bigint {
  return heldBy(after) - (before === null ? 0n : heldBy(before));
}

/** Books changes of leases in the budgets whose rows are locked. */
export async function changeHeld(
  sql: Sql,
  changes: readonly { lease: LeaseRow; changeNanoUsd: bigint }[],
): Promise<void> {
  const bySpend = new SpendSums();
  const byAccount = new SpendSums();
  for (const { lease, changeNanoUsd } of changes) {
    if (changeNanoUsd === 0n) continue;
    const { tenantId, kind, subjectId, periodStart } = lease;
    if (kind === BudgetKind.ORGANIZATION) byAccount.add({ tenantId, kind, subjectId, periodStart: '' }, changeNanoUsd);
    else bySpend.add({ tenantId, kind, subjectId, periodStart }, changeNanoUsd);
  }
  const accounts = byAccount.all;
  if (accounts.length > 0) {
    await sql.query({
      name: 'change-held-of-accounts',
      text: `
        update accounts set held_nano_usd = held_nano_usd + changed.amount
        from unnest($1::uuid[], $2::bigint[]) as changed (tenant_id, amount)
        where accounts.tenant_id = changed.tenant_id`,
      values: [accounts.map((row) => row.tenantId), accounts.map((row) => row.amountNanoUsd)],
    });
  }
  const spend = bySpend.all;
  if (spend.length === 0) return;
  await sql.query({
    name: 'change-held-of-spend',
    text: `
      update spend set held_nano_usd = spend.held_nano_usd + changed.amount
      from unnest($1::uuid[], $2::smallint[], $3::uuid[], $4::date[], $5::bigint[])
        as changed (tenant_id, kind, subject_id, period_start, amount)
      where spend.tenant_id = changed.tenant_id and spend.kind = changed.kind
        and spend.subject_id = changed.subject_id and spend.period_start = changed.period_start`,
    values: [
      spend.map((row) => row.tenantId),
      spend.map((row) => row.kind),
      spend.map((row) => row.subjectId),
      spend.map((row) => row.periodStart),
      spend.map((row) => row.amountNanoUsd),
    ],
  });
}
