import { tryAdvisoryLock } from '#shared/db/advisory-lock.ts';
import type { Sql } from '#shared/db/sql.ts';
import type { BillingDeps } from '../deps.ts';
import { findFaults, withTimeToVerify } from '../ledger/verify.ts';
import type { WorkerDeps } from './each-organization.ts';

const hourMs = 3_600_000;

/**
 * Verifies the whole ledger once a day, in one of several processes, whenever they start; while it is wrong, every hour. All of them show
 * what was found. After a long one there is as long a pause: while a statement runs, vacuum removes no row that it may see.
 */
export async function verifyLedger(deps: WorkerDeps & Pick<BillingDeps, 'metrics'>): Promise<void> {
  const { database, databaseNow, logger, metrics, signal } = deps;
  const show = async (): Promise<Verification> => {
    const latest = await latestVerification(database.pool);
    metrics.ledgerVerified(latest.faults, latest.verified_at);
    return latest;
  };
  // Before another one too, which may take hours.
  if (!isDue(await show(), await databaseNow(database.pool))) return;
  await withTimeToVerify(database, signal, async (sql) => {
    if (!(await tryAdvisoryLock(sql, 'verification of the ledger'))) return;
    const nowMs = await databaseNow(sql);
    if (!isDue(await latestVerification(sql), nowMs)) return;
    const faults = await findFaults(sql, null);
    const endMs = await databaseNow(sql);
    const dueMs = Math.max(nowMs + (faults.length > 0 ? 1 : 24) * hourMs, endMs + (endMs - nowMs));
    await sql.query({
      text: 'update ledger_verifications set verified_at = $1, faults = $2, due_at = $3',
      values: [new Date(nowMs), faults.length, new Date(dueMs)],
    });
    if (faults.length > 0)
      logger.error(
        { faults: faults.length, first: String(faults[0]!.subjectId) },
        'the ledger is wrong: `npm run admin -- ledger verify` lists the faults',
      );
  });
  await show();
}

type Verification = { verified_at: Date | null; faults: number; due_at: Date | null };

async function latestVerification(sql: Sql): Promise<Verification> {
  const { rows } = await sql.query<Verification>('select verified_at, faults, due_at from ledger_verifications');
  return rows[0]!;
}

/** A verification in the future was made before the database's clock was set back. */
const isDue = ({ verified_at, due_at }: Verification, nowMs: number): boolean =>
  verified_at === null || due_at === null || nowMs >= due_at.getTime() || nowMs < verified_at.getTime();
