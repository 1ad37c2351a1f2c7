import { type Static, Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idSchema, pageOf, pageQuerySchema, paginationJson, parseTimeIfGiven, timeSchema } from '../../../http/json.ts';
import { nullable } from '../../../http/nullable.ts';
import {
  invoiceJson,
  invoiceSchema,
  invoiceWithLinesJson,
  invoiceWithLinesSchema,
  transactionJson,
  transactionSchema,
} from '../billing/billing-json.ts';
import {
  answerInvoice,
  invoiceFormatSchema,
  invoiceFormats,
  invoiceQuery,
  invoiceQuerySchema,
} from '../billing/invoices.ts';
import { idInPath } from '../id-in-path.ts';
import { existingOrganization, organizationId } from './organization-id.ts';
import { paymentIdSchema } from './payment-id.ts';

/** An invoice with whose it is. */
export const foundInvoiceSchema = Type.Object(
  { ...invoiceSchema.properties, tenant_id: idSchema },
  { $id: 'FoundInvoice' },
);
const params = Type.Object({ tenant_id: idSchema, invoice_id: idSchema });
/** The invoice of a path, as Billing takes it. */
const invoiceNamed = ({ tenant_id, invoice_id }: Static<typeof params>) => ({
  tenantId: organizationId(tenant_id),
  invoiceId: idInPath(invoice_id, 'invoice'),
});

/** An organization's invoices for operators, who record that one was paid elsewhere, or void one. */
export const adminInvoiceRoutes: Routes = (app, { auth, billing }) => {
  app.get(
    '/api/v1/admin/invoices/:number',
    {
      config: operatorOnly,
      schema: {
        summary: 'Find an invoice by its number',
        description: 'Of any organization. `INV-000123` may also be written `inv123` or `123`.',
        response: { 200: foundInvoiceSchema },
        params: Type.Object({ number: Type.String({ maxLength: 255 }) }),
      },
    },
    async (request) => {
      const { tenantId, invoice } = await billing.findInvoice({ number: request.params.number }, asCaller(request));
      return { ...invoiceJson(invoice!), tenant_id: tenantId };
    },
  );

  app.get(
    '/api/v1/admin/organizations/:tenant_id/invoices',
    {
      config: operatorOnly,
      schema: {
        summary: 'List the invoices of an organization',
        description: 'Newest first: invoices for the UTC months that contain any of the given days.',
        response: { 200: pageOf(invoiceSchema) },
        params: Type.Object({ tenant_id: idSchema }),
        querystring: Type.Object(invoiceQuerySchema),
      },
    },
    async (request) => {
      const options = asCaller(request);
      const tenantId = await existingOrganization(auth, request.params.tenant_id, options);
      const answer = await billing.listInvoices({ ...invoiceQuery(request.query), tenantId }, options);
      return { data: answer.invoices.map(invoiceJson), pagination: paginationJson(answer.pageInfo) };
    },
  );

  app.get(
    '/api/v1/admin/organizations/:tenant_id/invoices/:invoice_id',
    {
      config: operatorOnly,
      schema: {
        summary: 'Get an invoice of an organization',
        description: 'With its line items.',
        response: { 200: invoiceFormats },
        params,
        querystring: invoiceFormatSchema,
      },
    },
    async (request, reply) => answerInvoice(billing, invoiceNamed(request.params), request, reply),
  );

  app.get(
    '/api/v1/admin/organizations/:tenant_id/invoices/:invoice_id/transactions',
    {
      config: operatorOnly,
      schema: {
        summary: 'List the transactions of an invoice of an organization',
        description: 'Newest first.',
        response: { 200: pageOf(transactionSchema) },
        params,
        querystring: Type.Object(pageQuerySchema),
      },
    },
    async (request) => {
      const { page, limit } = request.query;
      const named = invoiceNamed(request.params);
      const answer = await billing.listInvoiceTransactions({ ...named, page: { page, limit } }, asCaller(request));
      return { data: answer.transactions.map(transactionJson), pagination: paginationJson(answer.pageInfo) };
    },
  );

  app.post(
    '/api/v1/admin/organizations/:tenant_id/invoices/:invoice_id/pay',
    {
      config: operatorOnly,
      schema: {
        summary: 'Mark an invoice as paid',
        description:
          'For a finalized invoice of which the amount due was paid elsewhere: what that exceeds the total by becomes credit. `paid_at` defaults to now.',
        response: { 200: invoiceWithLinesSchema },
        params,
        body: nullable(onlyFields({ paid_at: Type.Optional(timeSchema), payment_id: Type.Optional(paymentIdSchema) })),
      },
    },
    async (request) => {
      const { invoice } = await billing.markInvoicePaid(
        {
          ...invoiceNamed(request.params),
          paidAt: parseTimeIfGiven(request.body?.paid_at, 'paid_at'),
          paymentId: request.body?.payment_id,
        },
        asCaller(request),
      );
      return invoiceWithLinesJson(invoice!);
    },
  );

  app.post(
    '/api/v1/admin/organizations/:tenant_id/invoices/:invoice_id/void',
    {
      config: operatorOnly,
      schema: {
        summary: 'Void an invoice',
        description: 'For a finalized, unpaid invoice. Credit from refunds of it stays.',
        response: { 200: invoiceWithLinesSchema },
        params,
      },
    },
    async (request) => {
      const { invoice } = await billing.voidInvoice(invoiceNamed(request.params), asCaller(request));
      return invoiceWithLinesJson(invoice!);
    },
  );
};
