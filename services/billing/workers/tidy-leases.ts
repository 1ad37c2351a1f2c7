import { type BudgetKind, LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import type { BillingDeps } from '../deps.ts';
import { heldBy } from '../domain/lease.ts';
import { lockRowsOf } from '../leasing/budget.ts';
import { asLapsed } from '../leasing/lapse.ts';
import { changeLeases, type LeaseRow, lockLeases, lockOverdueLeases } from '../leasing/lease-row.ts';
import { type BudgetKey, changeHeld, SpendSums } from '../leasing/spend.ts';
import { eachOrganization, type WorkerDeps } from './each-organization.ts';

const budgetsPerRun = 1_000;
const leasesPerRun = 10_000;
/** What is stored after the time was looked up, but before a statement runs, is a little ahead. */
const aheadMsMax = 10_000;

/** Lets overdue leases lapse and deletes old ones; a demand for room does the former itself. */
export async function tidyLeases(deps: WorkerDeps): Promise<void> {
  const { database, databaseNow } = deps;
  const now = new Date(await databaseNow(database.pool));
  await turnBack(database, now);
  await forgetSettled(database, now);
  const { rows: overdue } = await database.query<BudgetRow>({
    name: 'budgets-with-overdue-leases',
    text: `
      select distinct tenant_id, kind, subject_id, period_start from leases
      where state = ${LeaseState.HELD} and expires_at <= $1 limit ${budgetsPerRun}`,
    values: [now],
  });
  const { rows: old } = await database.query<BudgetRow & { ids: string[] }>({
    name: 'budgets-with-old-leases',
    text: `
      select tenant_id, kind, subject_id, period_start, array_agg(id) as ids from (
        select * from leases where state <> ${LeaseState.HELD} and expires_at <= $1 limit ${leasesPerRun}) as old
      where room_nano_usd > charged_nano_usd
      group by tenant_id, kind, subject_id, period_start`,
    values: [now],
  });
  await eachOrganization<BudgetRow & { ids?: string[] }>(deps, [...overdue, ...old], async (sql, row) => {
    const nowMs = await databaseNow(sql);
    if (row.ids) return forgetLeases(sql, budgetOf(row), row.ids, nowMs);
    return lapseLeases(sql, budgetOf(row), nowMs);
  });
}

/**
 * A lease with a grant or settlement in the future is from before the database's clock was set back: it ends as if that were now. One that was
 * kept since, while its room was wanted, has an end of now already.
 */
async function turnBack(database: Pick<BillingDeps['database'], 'query'>, now: Date): Promise<void> {
  await database.query({
    name: 'turn-back-leases',
    text: `
      update leases set settled_at = $1,
        expires_at = case when expires_at > settled_at then expires_at - (settled_at - $1) else expires_at end
      where id in (
        select id from leases where state = ${LeaseState.HELD} and settled_at > $1::timestamptz + interval '${aheadMsMax} milliseconds'
        for update skip locked)`,
    values: [now],
  });
}

type BudgetRow = { tenant_id: string; kind: BudgetKind; subject_id: string; period_start: string };

const budgetOf = (row: BudgetRow): BudgetKey => ({
  tenantId: row.tenant_id,
  kind: row.kind,
  subjectId: row.subject_id,
  periodStart: row.period_start,
});

async function lapseLeases(sql: Sql, budget: BudgetKey, nowMs: number): Promise<number> {
  await lockRowsOf(sql, [budget]);
  const overdue = await lockOverdueLeases(sql, [budget], nowMs);
  await changeLeases(
    sql,
    overdue.map((before) => ({ before, after: asLapsed(before, nowMs) })),
  );
  return overdue.length;
}

/**
 * Old leases that occupy nothing, which is most of them, change no budget; and those given up before they were granted have none. One that
 * is locked waits for the next time: another process may be doing the same, in another order.
 */
async function forgetSettled(database: Pick<BillingDeps['database'], 'query'>, now: Date): Promise<void> {
  await database.query({
    name: 'forget-settled-leases',
    text: `
      delete from leases where id = any(array(
        select id from leases
        where state <> ${LeaseState.HELD} and expires_at <= $1 and room_nano_usd <= charged_nano_usd limit ${leasesPerRun}
        for update skip locked))`,
    values: [now],
  });
}

/** Whatever an old lease still occupies was never charged in all that time, and never will be. */
async function forgetLeases(sql: Sql, budget: BudgetKey, ids: readonly string[], nowMs: number): Promise<number> {
  await lockRowsOf(sql, [budget]);
  const leases = (await lockLeases(sql, ids)).filter(isOld(nowMs));
  const freed = new SpendSums();
  for (const lease of leases) freed.add(lease, -heldBy(lease));
  await changeHeld(sql, freed);
  await sql.query({
    text: 'delete from leases where id = any($1::uuid[])',
    values: [leases.map(({ id }) => id)],
  });
  return leases.length;
}

const isOld = (nowMs: number) => (lease: LeaseRow) => lease.state !== LeaseState.HELD && lease.expiresAtMs <= nowMs;
