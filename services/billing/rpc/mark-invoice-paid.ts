import { timestampMs } from '@bufbuild/protobuf/wkt';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { audit } from '../audit.ts';
import { invoiceMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { findInvoice, linesOf } from '../invoices.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { lockInvoice, payInvoice } from '../ledger/invoice-postings.ts';
import { operatorCaller } from './caller.ts';

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
      const payment = { paidAtMs, description: 'Invoice paid', requestId: null };
      const transactionId = await payInvoice(sql, account, invoice, payment, nowMs);
      if (transactionId !== null) {
        const change = {
          tenantId,
          type: 'invoice_paid',
          target: { type: 'invoice', id: invoice.id },
          after: { paid_at: new Date(paidAtMs).toISOString() },
          asOperator: true,
        };
        await audit(sql, caller, change, nowMs);
      }
      return nowMs;
    });
    const em = database.em();
    const invoice = await findInvoice(em, tenantId, request.invoiceId);
    return { invoice: invoiceMessage(invoice, await linesOf(em, invoice), nowMs) };
  };
