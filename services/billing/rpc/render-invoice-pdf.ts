import { asService } from '#shared/rpc/caller.ts';
import { invoiceNumber } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { invoicePdf } from '../documents/invoice-pdf.ts';
import { invoiceWithLines } from '../invoices.ts';
import { readableTenant } from './caller.ts';

const authTimeoutMs = 1_000;

export const renderInvoicePdf =
  ({ database, auth }: Pick<BillingDeps, 'database' | 'auth'>): BillingRpc<'renderInvoicePdf'> =>
  async (request, context) => {
    const tenantId = readableTenant(context, request.tenantId);
    const { invoice, lines } = await invoiceWithLines(database, tenantId, request.invoiceId);
    const pdf = await invoicePdf(invoice, lines, await nameOf(auth, tenantId));
    return { pdf, fileName: `${invoiceNumber(invoice.number) || `draft-${invoice.month.slice(0, 7)}`}.pdf` };
  };

/** Empty for an unknown organization, and while Auth does not answer. */
async function nameOf(auth: BillingDeps['auth'], tenantId: string): Promise<string> {
  const asked = auth.getTenants({ tenantIds: [tenantId] }, { ...asService('billing'), timeoutMs: authTimeoutMs });
  const organizations = await asked.then((answer) => answer.organizations).catch(() => []);
  return organizations[0]?.name ?? '';
}
