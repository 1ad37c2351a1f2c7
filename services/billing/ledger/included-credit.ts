import { createHash } from 'node:crypto';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { plainArray, type Sql } from '../db/sql.ts';
import { monthOf, nextMonthMs } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';
import { type Account, hasRoomInAccount } from './accounts.ts';
import { openLot } from './credit.ts';

/** Organizations without the credit that their plan includes for the month, which is `$1`. */
const withoutIncludedCredit = `
  select accounts.tenant_id, plans.monthly_credit_nano_usd as credit, plans.name as plan
  from accounts join plans on plans.code = coalesce(accounts.plan_code, '${defaultPlanCode}')
  where plans.monthly_credit_nano_usd > 0 and not exists (
    select from transactions where transactions.tenant_id = accounts.tenant_id
      and request_id = md5('plan credit ' || accounts.tenant_id || ' ' || $1)::uuid)`;

/** Some of all organizations that wait for it, `max` at most. */
export async function tenantsWithoutIncludedCredit(sql: Sql, nowMs: number, max: number) {
  const { rows } = await sql.query<{ tenant_id: string }>({
    name: 'tenants-without-included-credit',
    text: `${withoutIncludedCredit} limit ${max}`,
    values: [monthOf(nowMs)],
  });
  return rows;
}

/**
 * Gives locked organizations the credit that their plan includes for this month, once; answers to how many. Whoever is about to draw on
 * credit calls it first: a worker comes by once a minute, and what was used before it came would be invoiced.
 */
export async function grantIncludedCredit(
  sql: Sql,
  accounts: ReadonlyMap<string, Account>,
  nowMs: number,
): Promise<number> {
  const month = monthOf(nowMs);
  const { rows } = await sql.query<{ tenant_id: string; credit: bigint; plan: string }>({
    name: 'included-credit-due',
    text: `${withoutIncludedCredit} and accounts.tenant_id = any($2::uuid[])`,
    values: [month, plainArray([...accounts.keys()])],
  });
  let granted = 0;
  for (const { tenant_id, credit, plan } of rows) {
    const account = accounts.get(tenant_id)!;
    // An account that can hold no more is no reason to refuse a charge.
    if (!hasRoomInAccount(account, credit)) continue;
    const lot = {
      source: LotSource.PROMOTION,
      amountNanoUsd: credit,
      expiresAtMs: nextMonthMs(nowMs),
      description: `Included in plan ${plan}`,
      requestId: creditId(tenant_id, month),
    };
    await openLot(sql, account, lot, nowMs);
    granted += 1;
  }
  return granted;
}

/** The request id of a month's credit: a name, not a secret, and the same in the statement above. */
const creditId = (tenantId: string, month: string): string =>
  createHash('md5')
    .update(`plan credit ${tenantId} ${month}`)
    .digest('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
