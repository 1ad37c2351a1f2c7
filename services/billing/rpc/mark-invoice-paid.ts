import { timestampMs } from '@bufbuild/protobuf/wkt';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError, invalidValue } from '#shared/errors.ts';
import { upToWholeCent, usdJson } from '#shared/money.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { dayOf } from '../domain/period.ts';
import { describedInvoice } from '../invoices.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { type LockedInvoice, lockInvoice, payInvoice } from '../ledger/invoice-postings.ts';
import { lockAndFindPayment, namedPayment, paymentBooked, paymentText, savePayment } from '../ledger/payments.ts';

/** How far an operator's clock may be ahead of the database's, in milliseconds. */
const clockSkewMs = 60_000;

/** The payer has paid what the invoice asked for: its total, rounded up to a whole cent. */
export const markInvoicePaid =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'markInvoicePaid'> =>
  async (request, context) => {
    const caller = operatorCaller(context);
    const tenantId = request.tenantId.toLowerCase();
    const name = namedPayment(request.paymentId);
    const nowMs = await sqlTransaction(database, async (sql) => {
      const earlier = name && (await lockAndFindPayment(sql, name));
      const account = await lockAccount(sql, tenantId);
      const invoice = await lockInvoice(sql, tenantId, request.invoiceId);
      const nowMs = await databaseNow(sql);
      const paidAtMs = request.paidAt === undefined ? nowMs : possibleTime(timestampMs(request.paidAt), invoice, nowMs);
      if (name !== null && earlier !== null) {
        if (earlier.tenantId === tenantId && earlier.invoiceMonth === invoice.month) return nowMs;
        throw paymentBooked(name);
      }
      const amountNanoUsd = upToWholeCent(invoice.totalNanoUsd);
      const description = name === null ? 'Invoice paid' : paymentText(name.paymentId);
      const payment = { amountNanoUsd, paidAtMs, description };
      const booked = await payInvoice(sql, account, invoice, payment, nowMs);
      if (booked === null && name !== null) {
        const text = 'The invoice was paid before. If this is not the payment that paid it, grant credit for it.';
        throw gatewayError(ErrorReason.CONFLICT, text);
      }
      if (booked !== null) {
        if (name !== null) await savePayment(sql, name, { tenantId, amountNanoUsd, ...booked }, nowMs);
        await recordAuditEvent(sql, {
          caller,
          occurredAtMs: nowMs,
          tenantId,
          type: 'invoice_paid',
          target: { type: 'invoice', id: invoice.id },
          after: {
            amount_usd: usdJson(amountNanoUsd),
            paid_at: new Date(paidAtMs).toISOString(),
            ...(name !== null && { payment_id: name.paymentId }),
          },
          asOperator: true,
        });
      }
      return nowMs;
    });
    return { invoice: await describedInvoice(database, tenantId, request.invoiceId, nowMs) };
  };

/**
 * When an invoice was paid. Often only the day is known, which begins before an invoice that was issued on it. A draft has not been issued;
 * payInvoice refuses it.
 */
function possibleTime(paidAtMs: number, { issuedAt }: LockedInvoice, nowMs: number): number {
  if (paidAtMs > nowMs + clockSkewMs) throw invalidValue('paid_at', 'it is in the future');
  if (issuedAt === null) return paidAtMs;
  const issuedAtMs = issuedAt.getTime();
  if (dayOf(paidAtMs) < dayOf(issuedAtMs)) throw invalidValue('paid_at', 'it is before the invoice was issued');
  return Math.max(paidAtMs, issuedAtMs);
}
