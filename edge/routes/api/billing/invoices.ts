import { type Static, type TObject, Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { readDays } from '../../../http/days.ts';
import { idSchema, pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import {
  invoiceJson,
  invoiceSchema,
  invoiceStatuses,
  invoiceWithLinesJson,
  invoiceWithLinesSchema,
  paymentStatuses,
  transactionJson,
  transactionSchema,
} from './billing-json.ts';
import { daysQuerySchema } from './days-query.ts';

/** What a list of invoices is narrowed by. */
export const invoiceQuerySchema = {
  ...pageQuerySchema,
  status: Type.Optional(invoiceStatuses.schema),
  payment_status: Type.Optional(paymentStatuses.schema),
  ...daysQuerySchema,
};
type InvoiceQuery = Static<TObject<typeof invoiceQuerySchema>>;

/** The same as Billing takes it. */
export const invoiceQuery = ({ page, limit, status, payment_status, ...days }: InvoiceQuery) => ({
  page: { page, limit },
  status: invoiceStatuses.value(status),
  paymentStatus: paymentStatuses.value(payment_status),
  ...readDays(days),
});

/** Invoices, each with its line items, as JSON or PDF, and its transactions (service.md, Management endpoints). */
export const invoiceRoutes: Routes = (app, { billing }) => {
  const config = { access: { surface: 'api', scope: 'billing:read_invoices', role: 'admin' } } as const;
  const params = Type.Object({ invoice_id: idSchema });

  app.get(
    '/api/v1/billing/documents/invoices',
    {
      config,
      schema: {
        summary: 'List invoices',
        description: 'Newest first: invoices for the UTC months that contain any of the given days.',
        querystring: Type.Object(invoiceQuerySchema),
        response: { 200: pageOf(invoiceSchema) },
      },
    },
    async (request) => {
      const answer = await billing.listInvoices(invoiceQuery(request.query), asCaller(request));
      return { data: answer.invoices.map(invoiceJson), pagination: paginationJson(answer.pageInfo) };
    },
  );

  app.get(
    '/api/v1/billing/documents/invoices/:invoice_id',
    {
      config,
      schema: {
        summary: 'Get an invoice',
        params,
        querystring: Type.Object({
          format: Type.Optional(Type.Enum(['json', 'pdf'], { description: '`json` by default.' })),
        }),
        response: {
          200: {
            content: {
              'application/json': { schema: invoiceWithLinesSchema },
              'application/pdf': { schema: Type.Unsafe<Buffer>(Type.String({ format: 'binary' })) },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const { invoice_id: invoiceId } = request.params;
      const options = asCaller(request);
      if (request.query.format === 'pdf') {
        const { pdf, fileName } = await billing.renderInvoicePdf({ invoiceId }, options);
        return reply
          .type('application/pdf')
          .header('content-disposition', `attachment; filename="${fileName}"`)
          .send(Buffer.from(pdf));
      }
      const { invoice } = await billing.getInvoice({ invoiceId }, options);
      return invoiceWithLinesJson(invoice!);
    },
  );

  app.get(
    '/api/v1/billing/documents/invoices/:invoice_id/transactions',
    {
      config,
      schema: {
        summary: 'List the transactions of an invoice',
        description: 'Newest first.',
        params,
        querystring: Type.Object(pageQuerySchema),
        response: { 200: pageOf(transactionSchema) },
      },
    },
    async (request) => {
      const { page, limit } = request.query;
      const answer = await billing.listInvoiceTransactions(
        { invoiceId: request.params.invoice_id, page: { page, limit } },
        asCaller(request),
      );
      return { data: answer.transactions.map(transactionJson), pagination: paginationJson(answer.pageInfo) };
    },
  );
};
