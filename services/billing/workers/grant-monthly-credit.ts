import { createHash } from 'node:crypto';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import type { BillingDeps } from '../deps.ts';
import { monthOf, nextMonthMs } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { findRequest, openLot } from '../ledger/credit.ts';
import { eachOrganization } from './each-organization.ts';

const tenantsPerRun = 1_000;

/** Gives organizations the credit that their plan includes for this month, once; answers to how many. */
export async function grantMonthlyCredit(
  deps: Pick<BillingDeps, 'database' | 'databaseNow' | 'logger'>,
): Promise<number> {
  const { database, databaseNow } = deps;
  const nowMs = await databaseNow(database.pool);
  const month = monthOf(nowMs);
  const { rows } = await database.query<{ tenant_id: string; credit: bigint; plan: string }>({
    name: 'tenants-without-monthly-credit',
    text: `
      select accounts.tenant_id, plans.monthly_credit_nano_usd as credit, plans.name as plan
      from accounts join plans on plans.code = coalesce(accounts.plan_code, '${defaultPlanCode}')
      where plans.monthly_credit_nano_usd > 0 and not exists (
        select from transactions where transactions.tenant_id = accounts.tenant_id
          and request_id = md5('plan credit ' || accounts.tenant_id || ' ' || $1)::uuid)
      limit ${tenantsPerRun}`,
    values: [month],
  });
  return eachOrganization(deps, rows, async (sql, { tenant_id, credit, plan }) => {
    const account = await lockAccount(sql, tenant_id);
    const requestId = creditId(tenant_id, month);
    const lot = {
      source: LotSource.PROMOTION,
      amountNanoUsd: credit,
      expiresAtMs: nextMonthMs(nowMs),
      description: `Included in plan ${plan}`,
      requestId,
    };
    if ((await findRequest(sql, tenant_id, lot)) !== null) return 0;
    await openLot(sql, account, lot, nowMs);
    return 1;
  });
}

/** The request id of a month's credit: a name, not a secret, and the same in the statement above. */
const creditId = (tenantId: string, month: string): string =>
  createHash('md5')
    .update(`plan credit ${tenantId} ${month}`)
    .digest('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
