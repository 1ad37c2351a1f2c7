import { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { describedInvoice } from '../invoices.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { lockInvoice, voidInvoiceOf } from '../ledger/invoice-postings.ts';

export const voidInvoice =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'voidInvoice'> =>
  async (request, context) => {
    const caller = operatorCaller(context);
    const tenantId = request.tenantId.toLowerCase();
    const nowMs = await sqlTransaction(database, async (sql) => {
      const account = await lockAccount(sql, tenantId);
      const invoice = await lockInvoice(sql, tenantId, request.invoiceId);
      const nowMs = await databaseNow(sql);
      if (invoice.status === InvoiceStatus.VOIDED) return nowMs;
      await voidInvoiceOf(sql, account, invoice, nowMs);
      await recordAuditEvent(sql, {
        caller,
        occurredAtMs: nowMs,
        tenantId,
        type: 'invoice_voided',
        target: { type: 'invoice', id: invoice.id },
        before: { status: 'finalized' },
        after: { status: 'voided' },
        asOperator: true,
      });
      return nowMs;
    });
    return { invoice: await describedInvoice(database, tenantId, request.invoiceId, nowMs) };
  };
