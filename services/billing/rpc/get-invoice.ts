import type { BillingDeps, BillingRpc } from '../deps.ts';
import { describedInvoice } from '../invoices.ts';
import { readableTenant } from './caller.ts';

export const getInvoice =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'getInvoice'> =>
  async (request, context) => {
    const tenantId = readableTenant(context, request.tenantId);
    const nowMs = await databaseNow(database.pool);
    return { invoice: await describedInvoice(database, tenantId, request.invoiceId, nowMs) };
  };
