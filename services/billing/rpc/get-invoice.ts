import type { BillingDeps, BillingRpc } from '../deps.ts';
import { describedInvoice } from '../invoices.ts';
import { adminCaller } from './caller.ts';

export const getInvoice =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'getInvoice'> =>
  async ({ invoiceId }, context) => {
    const { tenantId } = adminCaller(context);
    const nowMs = await databaseNow(database.pool);
    return { invoice: await describedInvoice(database, tenantId, invoiceId, nowMs) };
  };
