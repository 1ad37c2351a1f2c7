import { asService } from '#shared/rpc/caller.ts';
import type { ReadTurns } from '#shared/rpc/read-turns.ts';
import { invoiceNumber } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { invoicePdf } from '../documents/invoice-pdf.ts';
import { invoiceWithLines } from '../invoices.ts';
import { readableTenant } from './caller.ts';

const authTimeoutMs = 1_000;

type Deps = Pick<BillingDeps, 'database' | 'auth'> & { reads: ReadTurns };

export const renderInvoicePdf =
  ({ database, auth, reads }: Deps): BillingRpc<'renderInvoicePdf'> =>
  async (request, context) => {
    const tenantId = readableTenant(context, request.tenantId);
    // A silent Auth must not keep the turns for which the reads of all organizations wait.
    const name = await nameOf(auth, tenantId);
    return reads(context, async () => {
      const { invoice, lines } = await invoiceWithLines(database, tenantId, request.invoiceId);
      const pdf = await invoicePdf(invoice, lines, name);
      return { pdf, fileName: `${invoiceNumber(invoice.number) || `draft-${invoice.month.slice(0, 7)}`}.pdf` };
    });
  };

/** Empty for an unknown organization, and while Auth does not answer. */
async function nameOf(auth: BillingDeps['auth'], tenantId: string): Promise<string> {
  const asked = auth.getTenants({ tenantIds: [tenantId] }, { ...asService('billing'), timeoutMs: authTimeoutMs });
  const organizations = await asked.then((answer) => answer.organizations).catch(() => []);
  return organizations[0]?.name ?? '';
}
