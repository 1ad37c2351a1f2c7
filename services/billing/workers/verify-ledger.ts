import { tryTurn } from '#shared/db/turns.ts';
import type { Sql } from '../db/sql.ts';
import { findFaults, withTimeToVerify } from '../ledger/verify.ts';
import type { BillingMetrics } from '../metrics.ts';
import type { WorkerDeps } from './each-organization.ts';

const hourMs = 3_600_000;

/**
 * Verifies the whole ledger once a day, in one of several processes, whenever they start; while it is wrong, every hour. All of them show
 * what was found.
 */
export async function verifyLedger(deps: WorkerDeps & { metrics: BillingMetrics }): Promise<void> {
  const { database, databaseNow, logger, metrics, signal } = deps;
  const isDue = async (sql: Sql, nowMs: number): Promise<boolean> => {
    const { verified_at, faults } = await showLatest(sql, metrics);
    return verified_at === null || nowMs >= verified_at.getTime() + (faults > 0 ? 1 : 24) * hourMs;
  };
  if (await isDue(database.pool, await databaseNow(database.pool))) {
    await withTimeToVerify(database, signal, async (sql) => {
      if (!(await tryTurn(sql, 'verification of the ledger'))) return;
      const nowMs = await databaseNow(sql);
      if (!(await isDue(sql, nowMs))) return;
      const faults = await findFaults(sql, null);
      await sql.query('update ledger_verifications set verified_at = $1, faults = $2', [
        new Date(nowMs),
        faults.length,
      ]);
      if (faults.length > 0)
        logger.error(
          { faults: faults.length, first: String(faults[0]!.subjectId) },
          'the ledger is wrong: `npm run admin -- ledger verify` lists the faults',
        );
    });
  }
  await showLatest(database.pool, metrics);
}

/** Shows the latest verification on /metrics, before another one too, which may take hours. */
async function showLatest(sql: Sql, metrics: BillingMetrics): Promise<{ verified_at: Date | null; faults: number }> {
  const { rows } = await sql.query<{ verified_at: Date | null; faults: number }>(
    'select verified_at, faults from ledger_verifications',
  );
  const latest = rows[0]!;
  metrics.ledgerVerified(latest.faults, latest.verified_at);
  return latest;
}
