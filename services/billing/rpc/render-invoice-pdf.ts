import { invoiceNumber } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { invoicePdf } from '../documents/invoice-pdf.ts';
import { invoiceWithLines } from '../invoices.ts';
import { adminCaller } from './caller.ts';

export const renderInvoicePdf =
  ({ database }: Pick<BillingDeps, 'database'>): BillingRpc<'renderInvoicePdf'> =>
  async ({ invoiceId }, context) => {
    const { tenantId } = adminCaller(context);
    const { invoice, lines } = await invoiceWithLines(database, tenantId, invoiceId);
    const pdf = await invoicePdf(invoice, lines);
    return { pdf, fileName: `${invoiceNumber(invoice.number) || `draft-${invoice.month.slice(0, 7)}`}.pdf` };
  };
