import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import type { Sql } from '../db/sql.ts';
import { monthOf, nextMonthMs, startOfPeriodMs } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';
import { type Account, hasRoomInAccount, lockAccount, readAccount } from './accounts.ts';
import { openLot } from './credit.ts';

/** SQL of the request id of a month's credit, by which it is given once: a name, not a secret. Of a UUID and the month as text. */
export const monthlyCreditId = (tenantId: string, month: string): string =>
  `md5('plan credit ' || ${tenantId} || ' ' || ${month})::uuid`;

/** Gives a locked organization the credit that its plan includes for this month, once; answers whether it was given now. */
export async function giveMonthlyCredit(sql: Sql, account: Account, nowMs: number): Promise<boolean> {
  const { tenantId } = account;
  const month = monthOf(nowMs);
  const id = monthlyCreditId('$1::uuid', '$2::text');
  const { rows } = await sql.query<{ credit: bigint; plan: string; requestId: string; given: boolean }>({
    name: 'ask-for-monthly-credit',
    text: `
      with asked as (
        insert into credit_months (tenant_id, month) values ($1::uuid, $2::text::date)
        on conflict (tenant_id) do update set month = excluded.month)
      select monthly_credit_nano_usd as credit, name as plan, ${id} as "requestId",
        exists (select from transactions where tenant_id = $1::uuid and request_id = ${id}) as given
      from plans where code = $3`,
    values: [tenantId, month, account.planCode ?? defaultPlanCode],
  });
  account.creditMonth = month;
  const { credit, plan, requestId, given } = rows[0]!;
  if (credit === 0n || given || !hasRoomInAccount(account, credit)) return false;
  const lot = {
    source: LotSource.PROMOTION,
    amountNanoUsd: credit,
    startsAtMs: startOfPeriodMs(month),
    expiresAtMs: nextMonthMs(nowMs),
    description: `Included in plan ${plan}`,
    requestId,
  };
  await openLot(sql, account, lot, nowMs);
  return true;
}

/**
 * The same, where nobody has asked in this month. Whoever draws on credit calls this first: the first call of a month, or of an
 * organization, must neither be refused nor be billed while its plan's credit is on its way.
 */
export async function giveCreditOfNewMonth(sql: Sql, account: Account, nowMs: number): Promise<void> {
  if (account.creditMonth !== monthOf(nowMs)) await giveMonthlyCredit(sql, account, nowMs);
}

/** The same for an organization that is looked at. */
export async function giveCreditBeforeLook(database: ServiceDatabase, tenantId: string, nowMs: number): Promise<void> {
  const { creditMonth } = await readAccount(database.pool, tenantId);
  if (creditMonth === monthOf(nowMs)) return;
  await sqlTransaction(database, async (sql) => giveCreditOfNewMonth(sql, await lockAccount(sql, tenantId), nowMs));
}
