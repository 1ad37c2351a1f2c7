import { Type } from 'typebox';
import { notFound } from '#shared/errors.ts';
import { isUuid } from '#shared/ids.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../../../caller.ts';
import { parseTime } from '../../../http/json.ts';
import type { Routes } from '../../routes.ts';
import { invoiceWithLinesJson } from '../billing/billing-json.ts';
import { organizationId } from './organization-id.ts';

const access = { surface: 'operator' } as const;
const params = Type.Object({ tenant_id: Type.String(), invoice_id: Type.String() });

function invoiceIdOf(text: string): string {
  if (!isUuid(text)) throw notFound('invoice');
  return text;
}

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
          invoiceId: invoiceIdOf(request.params.invoice_id),
          paidAt: paidAt === undefined ? undefined : parseTime(paidAt, 'paid_at'),
        },
        { contextValues: callerContext(callerOfRequest(request)) },
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
          invoiceId: invoiceIdOf(request.params.invoice_id),
        },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return invoiceWithLinesJson(invoice!);
    },
  );
};
