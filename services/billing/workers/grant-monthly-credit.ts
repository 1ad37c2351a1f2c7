import type { BillingDeps } from '../deps.ts';
import { monthOf } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { creditOfMonth, giveMonthlyCredit } from '../ledger/monthly-credit.ts';
import { eachOrganization } from './each-organization.ts';

const tenantsPerRun = 1_000;

/**
 * Gives organizations the credit that their plan includes for this month; answers to how many. Those that use or look at their credit
 * have it before; this is for all others, and for a plan that includes more than before.
 */
export async function grantMonthlyCredit(
  deps: Pick<BillingDeps, 'database' | 'databaseNow' | 'logger'>,
): Promise<number> {
  const { database, databaseNow } = deps;
  const { rows } = await database.query<{ tenant_id: string }>({
    name: 'tenants-without-monthly-credit',
    text: `
      select accounts.tenant_id
      from accounts join plans on plans.code = coalesce(accounts.plan_code, '${defaultPlanCode}')
      where plans.monthly_credit_nano_usd > 0
        and plans.monthly_credit_nano_usd > ${creditOfMonth('accounts.tenant_id', '$1::text')}
      limit ${tenantsPerRun}`,
    values: [monthOf(await databaseNow(database.pool))],
  });
  return eachOrganization(deps, rows, async (sql, { tenant_id }) => {
    const account = await lockAccount(sql, tenant_id);
    return Number(await giveMonthlyCredit(sql, account, await databaseNow(sql)));
  });
}
