import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import type { Sql } from '../db/sql.ts';
import { monthOf, nextMonthMs, startOfPeriodMs } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';
import { type Account, type CreditNote, hasRoomInAccount, lockAccounts, readAccount } from './accounts.ts';
import { giveCredit } from './credit.ts';

/**
 * SQL of the request id of a month's credit beyond what was given before; with it that credit is given only once. A name, not a secret.
 * Made of a UUID, the month as text, and nano-USD.
 */
const creditId = (tenantId: string, month: string, given: string): string =>
  `md5('plan credit ' || ${tenantId} || ' ' || ${month} || case ${given} when 0 then '' else ' beyond ' || ${given} end)::uuid`;

/** SQL of the nano-USD that plans have given an organization (UUID) for a month (text): once, and again whenever more was included. */
const creditOfMonth = (tenantId: string, month: string): string => `(
  with recursive gifts (total) as (
    select 0::bigint
    union all
    select total + amount_nano_usd from gifts join transactions
      on tenant_id = ${tenantId} and request_id = ${creditId(tenantId, month, 'total')})
  select max(total) from gifts)`;

/**
 * Gives a locked organization what its plan includes for this month, beyond what it was given already; returns whether there was anything.
 * If a plan includes less than before, nothing is taken back.
 */
export async function giveMonthlyCredit(sql: Sql, account: Account, nowMs: number): Promise<boolean> {
  const { tenantId } = account;
  const month = monthOf(nowMs);
  const { rows } = await sql.query<{ included: bigint; credit: bigint; plan: string; requestId: string }>({
    name: 'ask-for-monthly-credit',
    text: `
      with asked as (
        insert into credit_months (tenant_id, month, included_nano_usd)
        select $1::uuid, $2::text::date, monthly_credit_nano_usd from plans where code = $3
        on conflict (tenant_id) do update set month = excluded.month, included_nano_usd = excluded.included_nano_usd)
      select monthly_credit_nano_usd as included, monthly_credit_nano_usd - given as credit, name as plan, ${creditId('$1::uuid', '$2::text', 'given')} as "requestId"
      from plans, ${creditOfMonth('$1::uuid', '$2::text')} as credit_of_month (given)
      where code = $3`,
    values: [tenantId, month, account.planCode ?? defaultPlanCode],
  });
  const { included, credit, plan, requestId } = rows[0]!;
  Object.assign(account, { monthlyCreditNanoUsd: included, creditMonth: month, includedNanoUsd: included });
  if (credit <= 0n || !hasRoomInAccount(account, credit)) return false;
  const lot = {
    source: LotSource.PROMOTION,
    amountNanoUsd: credit,
    startsAtMs: startOfPeriodMs(month),
    expiresAtMs: nextMonthMs(nowMs),
    description: `Included in plan ${plan}`,
    requestId,
  };
  await giveCredit(sql, account, lot, nowMs);
  return true;
}

/** Whether a plan includes something for which it was not yet asked in this month. */
export const isCreditDue = (
  { monthlyCreditNanoUsd, creditMonth, includedNanoUsd }: CreditNote,
  nowMs: number,
): boolean => creditMonth !== monthOf(nowMs) || includedNanoUsd !== monthlyCreditNanoUsd;

/**
 * The same, if it is due. Call this before drawing on credit: the first call of a month, of an organization, or of a plan that now includes
 * more must neither be refused nor billed while the credit is still to come.
 */
export async function giveCreditIfDue(sql: Sql, account: Account, nowMs: number): Promise<void> {
  if (isCreditDue(account, nowMs)) await giveMonthlyCredit(sql, account, nowMs);
}

/** The same for organizations that are not locked. */
export async function giveDueCreditTo(
  database: ServiceDatabase,
  tenantIds: readonly string[],
  nowMs: number,
  settings: Readonly<Record<string, number>> = {},
): Promise<void> {
  const give = async (sql: Sql): Promise<void> => {
    for (const account of (await lockAccounts(sql, tenantIds)).values()) await giveCreditIfDue(sql, account, nowMs);
  };
  await sqlTransaction(database, give, { settings });
}

/** The same for an organization whose money is only read. */
export async function giveCreditBeforeLook(database: ServiceDatabase, tenantId: string, nowMs: number): Promise<void> {
  const account = await readAccount(database.pool, tenantId);
  if (isCreditDue(account, nowMs)) await giveDueCreditTo(database, [tenantId], nowMs);
}
