import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { removeInBatches } from '#shared/db/remove-in-batches.ts';
import { dayAfter } from '../domain/period.ts';
import type { WorkerDeps } from './each-organization.ts';

/** Far longer than leases last, and than calls take to be charged: nobody asks what was spent on a day that long ago. */
const keptDays = 35;
/** As many as a statement deletes in some tens of milliseconds. */
const removedAtOnce = 1_000;

/** Forgets what keys and users spent on days that are long over; returns how many rows are gone. */
export async function forgetSpend({
  database,
  databaseNow,
  signal,
}: Pick<WorkerDeps, 'database' | 'databaseNow' | 'signal'>): Promise<number> {
  const over = {
    name: 'forget-spend',
    text: `delete from spend where (tenant_id, kind, subject_id, period_start) in (
      select tenant_id, kind, subject_id, period_start from spend
      where kind <> ${BudgetKind.ORGANIZATION} and period_start < $1 and held_nano_usd = 0
      order by period_start limit ${removedAtOnce} for update skip locked)`,
    values: [dayAfter(await databaseNow(database.pool), -keptDays)],
  };
  return removeInBatches(database, over, signal);
}
