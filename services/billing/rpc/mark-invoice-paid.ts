import { timestampMs } from '@bufbuild/protobuf/wkt';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { invalidRequest } from '#shared/errors.ts';
import { upToWholeCent, usdJson } from '#shared/money.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { describedInvoice } from '../invoices.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { type LockedInvoice, lockInvoice, payInvoice } from '../ledger/invoice-postings.ts';

/** How far an operator's clock may be ahead of the database's, in milliseconds. */
const clockSkewMs = 60_000;

/** The payer has paid what the invoice asked for: its total, rounded up to a whole cent. */
export const markInvoicePaid =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'markInvoicePaid'> =>
  async (request, context) => {
    const caller = operatorCaller(context);
    const tenantId = request.tenantId.toLowerCase();
    const nowMs = await sqlTransaction(database, async (sql) => {
      const account = await lockAccount(sql, tenantId);
      const invoice = await lockInvoice(sql, tenantId, request.invoiceId);
      const nowMs = await databaseNow(sql);
      const paidAtMs = request.paidAt === undefined ? nowMs : timestampMs(request.paidAt);
      if (request.paidAt !== undefined) requirePossible(paidAtMs, invoice, nowMs);
      const amountNanoUsd = upToWholeCent(invoice.totalNanoUsd);
      const payment = { amountNanoUsd, paidAtMs, description: 'Invoice paid' };
      const booked = await payInvoice(sql, account, invoice, payment, nowMs);
      if (booked !== null) {
        await recordAuditEvent(sql, {
          caller,
          occurredAtMs: nowMs,
          tenantId,
          type: 'invoice_paid',
          target: { type: 'invoice', id: invoice.id },
          after: { amount_usd: usdJson(amountNanoUsd), paid_at: new Date(paidAtMs).toISOString() },
          asOperator: true,
        });
      }
      return nowMs;
    });
    return { invoice: await describedInvoice(database, tenantId, request.invoiceId, nowMs) };
  };

/** A draft has not been issued; payInvoice refuses it. */
function requirePossible(paidAtMs: number, { issuedAt }: LockedInvoice, nowMs: number): void {
  const fault =
    paidAtMs > nowMs + clockSkewMs
      ? 'is in the future'
      : issuedAt !== null && paidAtMs < issuedAt.getTime()
        ? 'is before the invoice was issued'
        : null;
  if (fault !== null) throw invalidRequest('paid_at', `Invalid value for \`paid_at\`: it ${fault}.`, 'invalid_value');
}
