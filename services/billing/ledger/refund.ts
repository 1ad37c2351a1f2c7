import { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import type { Sql } from '#shared/db/sql.ts';
import { notFound } from '#shared/errors.ts';
import { usdJson } from '#shared/money.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import { accountNumbers } from '../domain/ledger.ts';
import type { Account } from './accounts.ts';
import { giveCredit } from './credit.ts';

type Refund = {
  caller: Caller;
  asOperator: boolean;
  /** The charge. */
  reversesId: string;
  amountNanoUsd: bigint;
  description: string;
  requestId: string | null;
};

/**
 * Gives a charge back as credit that does not expire: what it was drawn on may have expired or been invoiced since, and posted entries are
 * never edited. Returns the id of the transaction. The organization is locked.
 */
export async function refundCharge(
  sql: Sql,
  account: Account,
  { caller, asOperator, reversesId, amountNanoUsd, description, requestId }: Refund,
  nowMs: number,
): Promise<string> {
  const { transactionId } = await giveCredit(
    sql,
    account,
    {
      source: LotSource.ADJUSTMENT,
      type: TransactionType.REFUND,
      from: 'revenue',
      amountNanoUsd,
      expiresAtMs: null,
      description,
      requestId,
      reversesId,
    },
    nowMs,
  );
  await recordAuditEvent(sql, {
    caller,
    occurredAtMs: nowMs,
    tenantId: account.tenantId,
    type: 'charge_refunded',
    target: { type: 'transaction', id: reversesId },
    after: { amount_usd: usdJson(amountNanoUsd), description },
    asOperator,
  });
  return transactionId;
}

/**
 * What is left of a charge after earlier refunds. What a voided invoice asked for was given up with it, and nobody paid it. The
 * organization is locked.
 */
export async function refundable(sql: Sql, tenantId: string, transactionId: string): Promise<bigint> {
  const { rows } = await sql.query<{ charged: bigint; refunded: bigint }>({
    text: `
      select -amount_nano_usd - (
          select coalesce(sum(entries.amount_nano_usd), 0)::bigint from entries join invoices using (tenant_id)
          where tenant_id = $1 and transaction_id = $2 and account = ${accountNumbers.paygAccrual}
            and month = transactions.invoice_month and status = ${InvoiceStatus.VOIDED}) as charged,
        (select coalesce(sum(amount_nano_usd), 0)::bigint from transactions
          where tenant_id = $1 and reverses_id = $2 and type = ${TransactionType.REFUND}) as refunded
      from transactions where tenant_id = $1 and id = $2 and type = ${TransactionType.USAGE}`,
    values: [tenantId, transactionId],
  });
  if (rows[0] === undefined) throw notFound('charge');
  return rows[0].charged - rows[0].refunded;
}
