import { isAway } from '#shared/db/errors.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import type { BillingDeps } from '../deps.ts';

export type WorkerDeps = Pick<BillingDeps, 'database' | 'databaseNow' | 'logger'> & {
  /** Aborts when the process stops. */
  signal?: AbortSignal;
};

/**
 * Does the work for each row in a transaction of its own; returns the sum of the results. A failure for one organization does not hold up
 * others: it is logged, and the run fails at its end. What a stopping process leaves, or one whose database goes away, is done by the next
 * run.
 */
export async function eachOrganization<Row extends { tenant_id: string }>(
  { database, logger, signal }: Omit<WorkerDeps, 'databaseNow'>,
  rows: readonly Row[],
  work: (sql: Sql, row: Row) => Promise<number>,
): Promise<number> {
  let done = 0;
  let failed = 0;
  for (const row of rows) {
    if (signal?.aborted) break;
    try {
      done += await sqlTransaction(database, (sql) => work(sql, row));
    } catch (err) {
      if (isAway(err)) throw err;
      failed += 1;
      logger.error({ err, tenantId: row.tenant_id }, 'a Billing worker failed for an organization');
    }
  }
  if (failed > 0) throw new Error(`it failed ${failed} of ${rows.length} times`);
  return done;
}
