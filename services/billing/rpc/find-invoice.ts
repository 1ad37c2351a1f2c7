import { notFound } from '#shared/errors.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { InvoiceEntity } from '../db/entities.ts';
import { invoiceMessage, readInvoiceNumber } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';

export const findInvoice =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'findInvoice'> =>
  async (request, context) => {
    operatorCaller(context);
    const number = readInvoiceNumber(request.number);
    const invoice = number === null ? null : await database.em().findOne(InvoiceEntity, { number });
    if (invoice === null) throw notFound('invoice');
    return {
      tenantId: invoice.tenantId,
      invoice: invoiceMessage(invoice, [], await databaseNow(database.pool)),
    };
  };
