import { createHash } from 'node:crypto';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import type { Sql } from '../db/sql.ts';
import { monthOf, nextMonthMs } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';
import { type Account, hasRoomInAccount, lockAccount, readAccount } from './accounts.ts';
import { openLot } from './credit.ts';

/** Gives a locked organization the credit that its plan includes for this month, once; answers whether it was given now. */
export async function giveMonthlyCredit(sql: Sql, account: Account, nowMs: number): Promise<boolean> {
  const { tenantId } = account;
  const month = monthOf(nowMs);
  const requestId = creditId(tenantId, month);
  const { rows } = await sql.query<{ credit: bigint; plan: string; given: boolean }>({
    name: 'ask-for-monthly-credit',
    text: `
      with asked as (
        insert into credit_months (tenant_id, month) values ($1, $2)
        on conflict (tenant_id) do update set month = excluded.month)
      select monthly_credit_nano_usd as credit, name as plan,
        exists (select from transactions where tenant_id = $1 and request_id = $3) as given
      from plans where code = $4`,
    values: [tenantId, month, requestId, account.planCode ?? defaultPlanCode],
  });
  account.creditMonth = month;
  const { credit, plan, given } = rows[0]!;
  if (credit === 0n || given || !hasRoomInAccount(account, credit)) return false;
  const lot = {
    source: LotSource.PROMOTION,
    amountNanoUsd: credit,
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

/** The request id of a month's credit: a name, not a secret, and the same in the statement of the worker. */
const creditId = (tenantId: string, month: string): string =>
  createHash('md5')
    .update(`plan credit ${tenantId} ${month}`)
    .digest('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
