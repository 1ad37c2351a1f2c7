import { invoiceMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { findInvoice, linesOf } from '../invoices.ts';
import { adminCaller } from './caller.ts';

export const getInvoice =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'getInvoice'> =>
  async ({ invoiceId }, context) => {
    const { tenantId } = adminCaller(context);
    const em = database.em();
    const invoice = await findInvoice(em, tenantId, invoiceId);
    return { invoice: invoiceMessage(invoice, await linesOf(em, invoice), await databaseNow(database.pool)) };
  };
