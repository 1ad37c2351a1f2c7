import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { plainArray, type Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { monthOf, nextMonthMs, startOfPeriodMs } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';
import { type Account, type CreditNote, hasRoomInAccount, lockAccounts, readAccount } from './accounts.ts';
import { type Gift, giveLots } from './credit.ts';

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
 * Gives locked organizations what their plans include for this month, beyond what they were given already, all in the same statements; returns
 * to how many. If a plan includes less than before, nothing is taken back.
 */
export async function giveMonthlyCredit(sql: Sql, accounts: readonly Account[], nowMs: number): Promise<number> {
  if (accounts.length === 0) return 0;
  const month = monthOf(nowMs);
  const { rows } = await sql.query<{
    place: bigint;
    included: bigint;
    credit: bigint;
    plan: string;
    requestId: string;
  }>({
    name: 'ask-for-monthly-credit',
    text: `
      with asking as (
        select tenant_id, place, monthly_credit_nano_usd, name
        from unnest($1::uuid[], $2::text[]) with ordinality as given (tenant_id, code, place) join plans using (code)),
      asked as (
        insert into credit_months (tenant_id, month, included_nano_usd)
        select tenant_id, $3::text::date, monthly_credit_nano_usd from asking order by tenant_id
        on conflict (tenant_id) do update set month = excluded.month, included_nano_usd = excluded.included_nano_usd)
      select place, monthly_credit_nano_usd as included, monthly_credit_nano_usd - given as credit, name as plan,
        ${creditId('asking.tenant_id', '$3::text', 'given')} as "requestId"
      from asking cross join lateral ${creditOfMonth('asking.tenant_id', '$3::text')} as credit_of_month (given)`,
    values: [
      plainArray(accounts.map(({ tenantId }) => tenantId)),
      accounts.map(({ planCode }) => planCode ?? defaultPlanCode),
      month,
    ],
  });
  const gifts: Gift[] = [];
  for (const { place, included, credit, plan, requestId } of rows) {
    const account = accounts[Number(place) - 1]!;
    Object.assign(account, { monthlyCreditNanoUsd: included, creditMonth: month, includedNanoUsd: included });
    if (credit <= 0n || !hasRoomInAccount(account, credit)) continue;
    const lot = {
      source: LotSource.PROMOTION,
      amountNanoUsd: credit,
      startsAtMs: startOfPeriodMs(month),
      expiresAtMs: nextMonthMs(nowMs),
      description: `Included in plan ${plan}`,
      requestId,
    };
    gifts.push({ account, credit: lot });
  }
  await giveLots(sql, gifts, nowMs);
  return gifts.length;
}

/** Whether a plan includes something for which it was not yet asked in this month. */
export const isCreditDue = (
  { monthlyCreditNanoUsd, creditMonth, includedNanoUsd }: CreditNote,
  nowMs: number,
): boolean => creditMonth !== monthOf(nowMs) || includedNanoUsd !== monthlyCreditNanoUsd;

/**
 * Gives locked organizations the credit of their plans where it is due. Call this before drawing on credit: the first call of a month, of an
 * organization, or of a plan that now includes more must neither be refused nor billed while the credit is still to come.
 */
export async function giveDueCredit(sql: Sql, accounts: readonly Account[], nowMs: number): Promise<void> {
  await giveMonthlyCredit(
    sql,
    accounts.filter((account) => isCreditDue(account, nowMs)),
    nowMs,
  );
}

/** Gives due credit, as `giveDueCredit` does, to organizations that are not locked yet, in a transaction of its own. */
export async function giveDueCreditTo(
  database: ServiceDatabase,
  tenantIds: readonly string[],
  nowMs: number,
  settings: Readonly<Record<string, number>> = {},
): Promise<void> {
  const give = async (sql: Sql): Promise<void> => {
    await giveDueCredit(sql, [...(await lockAccounts(sql, tenantIds)).values()], nowMs);
  };
  await sqlTransaction(database, give, { settings });
}

/** Gives due credit to an organization whose money is about to be read; takes a lock only if there is any. */
export async function giveCreditBeforeLook(database: ServiceDatabase, tenantId: string, nowMs: number): Promise<void> {
  const account = await readAccount(database.pool, tenantId);
  if (isCreditDue(account, nowMs)) await giveDueCreditTo(database, [tenantId], nowMs);
}
