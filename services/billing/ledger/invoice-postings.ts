import { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import { ErrorReason, gatewayError, notFound } from '#shared/errors.ts';
import { accountNumbers, postingDefaults, transfer } from '../domain/ledger.ts';
import { dayAfter } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';
import type { Account } from './accounts.ts';
import { type Booked, buyCredit } from './credit.ts';
import { post } from './post.ts';

export type LockedInvoice = {
  tenantId: string;
  id: string;
  month: string;
  status: InvoiceStatus;
  totalNanoUsd: bigint;
  issuedAt: Date | null;
  paidAt: Date | null;
};

/** Locks an invoice of a locked organization; NOT_FOUND when it has none with this id. */
export async function lockInvoice(sql: Sql, tenantId: string, id: string): Promise<LockedInvoice> {
  const { rows } = await sql.query<{
    month: string;
    status: InvoiceStatus;
    total_nano_usd: bigint;
    issued_at: Date | null;
    paid_at: Date | null;
  }>({
    text: `
      select month, status, total_nano_usd, issued_at, paid_at from invoices
      where tenant_id = $1 and id = $2 for update`,
    values: [tenantId, id],
  });
  if (rows[0] === undefined) throw notFound('invoice');
  const { month, status, total_nano_usd, issued_at, paid_at } = rows[0];
  return { tenantId, id, month, status, totalNanoUsd: total_nano_usd, issuedAt: issued_at, paidAt: paid_at };
}

/** Fixes and numbers a draft: what it accrued becomes what the organization owes, by the terms of its plan. */
export async function finalize(sql: Sql, account: Account, invoice: LockedInvoice, nowMs: number): Promise<void> {
  const { tenantId, id, month, totalNanoUsd } = invoice;
  if (totalNanoUsd > 0n) {
    const posting = {
      ...postingDefaults,
      type: TransactionType.UNSPECIFIED,
      amountNanoUsd: 0n,
      invoiceMonth: month,
      description: 'Invoice',
      entries: transfer(totalNanoUsd, 'receivable', 'paygAccrual'),
    };
    await post(sql, [{ account, postings: [posting] }], nowMs);
  }
  const { rows: plans } = await sql.query<{ payment_terms_days: number }>(
    'select payment_terms_days from plans where code = $1',
    [account.planCode ?? defaultPlanCode],
  );
  const { rows } = await sql.query<{ last_number: bigint }>(
    'update invoice_numbers set last_number = last_number + 1 returning last_number',
  );
  await sql.query({
    text: `
      update invoices set status = ${InvoiceStatus.FINALIZED}, number = $3, issued_at = $4, due_date = $5, paid_at = $6
      where tenant_id = $1 and id = $2`,
    values: [
      tenantId,
      id,
      rows[0]!.last_number,
      new Date(nowMs),
      dayAfter(nowMs, plans[0]!.payment_terms_days),
      // With nothing to pay, it counts as paid.
      totalNanoUsd === 0n ? new Date(nowMs) : null,
    ],
  });
}

/**
 * Books money that pays a finalized invoice. It comes in whole cents, and totals have nine decimals: what exceeds the total becomes credit.
 * Null, with nothing booked, when the invoice had been paid before; CONFLICT for a draft or a voided one.
 */
export async function payInvoice(
  sql: Sql,
  account: Account,
  invoice: LockedInvoice,
  payment: { amountNanoUsd: bigint; paidAtMs: number; description: string },
  nowMs: number,
): Promise<Booked | null> {
  if (invoice.status !== InvoiceStatus.FINALIZED) {
    throw gatewayError(ErrorReason.CONFLICT, 'Only a finalized invoice can be paid.');
  }
  if (invoice.paidAt !== null) return null;
  const { tenantId, id, month, totalNanoUsd } = invoice;
  const { amountNanoUsd, paidAtMs, description } = payment;
  const posting = {
    ...postingDefaults,
    type: TransactionType.PURCHASE,
    amountNanoUsd: totalNanoUsd,
    invoiceMonth: month,
    description,
    entries: transfer(totalNanoUsd, 'funding', 'receivable'),
  };
  const [transactionId] = await post(sql, [{ account, postings: [posting] }], nowMs);
  await sql.query({
    text: 'update invoices set paid_at = $3 where tenant_id = $1 and id = $2',
    values: [tenantId, id, new Date(paidAtMs)],
  });
  const rest = amountNanoUsd - totalNanoUsd;
  const excess = rest > 0n ? await buyCredit(sql, account, { amountNanoUsd: rest, description }, nowMs) : null;
  return { transactionId: transactionId!, lotId: excess?.lotId ?? null };
}

/**
 * Voids a finalized, unpaid invoice: what it asked for is given up by reversing the revenue. If refunds have reversed a part already,
 * leaving credit for it that nobody will pay for, then what the organization keeps of that credit counts as granted.
 */
export async function voidInvoiceOf(sql: Sql, account: Account, invoice: LockedInvoice, nowMs: number): Promise<void> {
  const { tenantId, id, month, status, totalNanoUsd, paidAt } = invoice;
  if (status !== InvoiceStatus.FINALIZED || (paidAt !== null && totalNanoUsd > 0n)) {
    throw gatewayError(ErrorReason.CONFLICT, 'Only a finalized, unpaid invoice can be voided.');
  }
  if (totalNanoUsd > 0n) {
    const refunded = await refundedOf(sql, invoice);
    const posting = {
      ...postingDefaults,
      type: TransactionType.REFUND,
      amountNanoUsd: totalNanoUsd,
      invoiceMonth: month,
      description: 'Invoice voided',
      entries: [
        ...(refunded < totalNanoUsd ? transfer(totalNanoUsd - refunded, 'revenue', 'receivable') : []),
        ...(refunded > 0n ? transfer(refunded, 'grantedCredit', 'receivable') : []),
      ],
    };
    await post(sql, [{ account, postings: [posting] }], nowMs);
  }
  await sql.query({
    // An invoice with nothing to pay counted as paid; once voided, nobody has paid it.
    text: `update invoices set status = ${InvoiceStatus.VOIDED}, paid_at = null where tenant_id = $1 and id = $2`,
    values: [tenantId, id],
  });
}

/** How much of what an invoice asks for was given back as credit. A refund first gives back what credit had paid for. */
async function refundedOf(sql: Sql, { tenantId, month }: LockedInvoice): Promise<bigint> {
  const { rows } = await sql.query<{ refunded: bigint }>({
    text: `
      select coalesce(sum(greatest(refunded - (-amount_nano_usd - asked), 0)), 0)::bigint as refunded
      from (
        select reverses_id as id, sum(amount_nano_usd) as refunded from transactions
        where tenant_id = $1 and reverses_id is not null and type = ${TransactionType.REFUND} group by 1) as refunds
      join transactions as charges using (id)
      cross join lateral (
        select coalesce(sum(entries.amount_nano_usd), 0) as asked from entries
        where tenant_id = $1 and transaction_id = charges.id and account = ${accountNumbers.paygAccrual}) as accrued
      where charges.tenant_id = $1 and invoice_month = $2`,
    values: [tenantId, month],
  });
  return rows[0]!.refunded;
}
