import { Type } from 'typebox';
import { asCaller } from '../../../caller.ts';
import { parseTime } from '../../../http/json.ts';
import type { Routes } from '../../routes.ts';
import { invoiceWithLinesJson } from '../billing/billing-json.ts';
import { idInPath } from '../id-in-path.ts';
import { organizationId } from './organization-id.ts';

const access = { surface: 'operator' } as const;
const params = Type.Object({ tenant_id: Type.String(), invoice_id: Type.String() });

/** What operators do with an organization's invoices: book that one was paid elsewhere, or take one back. */
export const adminInvoiceRoutes: Routes = (app, { billing }) => {
  app.post(
    '/api/v1/admin/organizations/:tenant_id/invoices/:invoice_id/pay',
    {
      config: { access },
      schema: {
        params,
        body: Type.Optional(
          Type.Union([
            Type.Object({ paid_at: Type.Optional(Type.String({ maxLength: 64 })) }, { additionalProperties: false }),
            Type.Null(),
          ]),
        ),
      },
    },
    async (request) => {
      const paidAt = request.body?.paid_at;
      const { invoice } = await billing.markInvoicePaid(
        {
          tenantId: organizationId(request.params.tenant_id),
          invoiceId: idInPath(request.params.invoice_id, 'invoice'),
          paidAt: paidAt === undefined ? undefined : parseTime(paidAt, 'paid_at'),
        },
        asCaller(request),
      );
      return invoiceWithLinesJson(invoice!);
    },
  );

  app.post(
    '/api/v1/admin/organizations/:tenant_id/invoices/:invoice_id/void',
    { config: { access }, schema: { params } },
    async (request) => {
      const { invoice } = await billing.voidInvoice(
        {
          tenantId: organizationId(request.params.tenant_id),
          invoiceId: idInPath(request.params.invoice_id, 'invoice'),
        },
        asCaller(request),
      );
      return invoiceWithLinesJson(invoice!);
    },
  );
};
