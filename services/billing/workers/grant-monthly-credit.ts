import { monthOf } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { giveMonthlyCredit } from '../ledger/monthly-credit.ts';
import { eachOrganization, type WorkerDeps } from './each-organization.ts';

/**
 * Gives organizations the credit that their plan includes for this month; returns to how many. Those that use or look at their credit get
 * it earlier.
 */
export async function grantMonthlyCredit(deps: WorkerDeps): Promise<number> {
  const { database, databaseNow } = deps;
  const { rows } = await database.query<{ tenant_id: string }>({
    name: 'tenants-without-monthly-credit',
    text: `
      select tenant_id from (
        select tenant_id, monthly_credit_nano_usd
          from accounts join plans on plans.code = coalesce(plan_code, '${defaultPlanCode}')
          where monthly_credit_nano_usd > 0
        except select tenant_id, included_nano_usd from credit_months where month = $1) as not_asked`,
    values: [monthOf(await databaseNow(database.pool))],
  });
  return eachOrganization(deps, rows, async (sql, { tenant_id }) => {
    const account = await lockAccount(sql, tenant_id);
    return giveMonthlyCredit(sql, [account], await databaseNow(sql));
  });
}
