import type { BillingDeps } from '../deps.ts';
import { lockAccounts } from '../ledger/accounts.ts';
import { grantIncludedCredit, tenantsWithoutIncludedCredit } from '../ledger/included-credit.ts';
import { eachOrganization } from './each-organization.ts';

const tenantsPerRun = 1_000;

/** Gives organizations that use nothing the credit of their plan for this month, so that their wallet shows it; answers to how many. */
export async function grantMonthlyCredit(
  deps: Pick<BillingDeps, 'database' | 'databaseNow' | 'logger'>,
): Promise<number> {
  const { database, databaseNow } = deps;
  const nowMs = await databaseNow(database.pool);
  const rows = await tenantsWithoutIncludedCredit(database.pool, nowMs, tenantsPerRun);
  return eachOrganization(deps, rows, async (sql, { tenant_id }) =>
    grantIncludedCredit(sql, await lockAccounts(sql, [tenant_id]), await databaseNow(sql)),
  );
}
