import type { Client } from '@connectrpc/connect';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Static, type TObject, Type } from 'typebox';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { readDays } from '../../../http/days.ts';
import { idSchema, pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import { idInPath } from '../id-in-path.ts';
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

/** The query of a list of invoices as Billing takes it. */
export const invoiceQuery = ({ page, limit, status, payment_status, ...days }: InvoiceQuery) => ({
  page: { page, limit },
  status: invoiceStatuses.value(status),
  paymentStatus: paymentStatuses.value(payment_status),
  ...readDays(days),
});

export const invoiceFormatSchema = Type.Object({
  format: Type.Optional(Type.Enum(['json', 'pdf'], { description: '`json` by default.' })),
});
/** An invoice in either format. */
export const invoiceFormats = {
  content: {
    'application/json': { schema: invoiceWithLinesSchema },
    'application/pdf': { schema: Type.Unsafe<Buffer>(Type.String({ format: 'binary' })) },
  },
};

/** Answers with an invoice, of `tenantId` or else of the caller's own organization, in the format that the query names. */
export async function answerInvoice(
  billing: Pick<Client<typeof BillingService>, 'getInvoice' | 'renderInvoicePdf'>,
  named: { invoiceId: string; tenantId?: string },
  request: FastifyRequest<{ Querystring: Static<typeof invoiceFormatSchema> }>,
  reply: FastifyReply,
) {
  const options = asCaller(request);
  if (request.query.format !== 'pdf') return invoiceWithLinesJson((await billing.getInvoice(named, options)).invoice!);
  const { pdf, fileName } = await billing.renderInvoicePdf(named, options);
  return reply
    .type('application/pdf')
    .header('content-disposition', `attachment; filename="${fileName}"`)
    .send(Buffer.from(pdf));
}

/** Invoices, each with its line items, as JSON or PDF, and its transactions (service.md, Management endpoints). */
export const invoiceRoutes: Routes = (app, { billing }) => {
  const config = { access: { surface: 'api', scope: 'billing:read_invoices', role: 'admin' } } as const;
  const params = Type.Object({ invoice_id: idSchema });
  const invoiceNamed = (asked: Static<typeof params>) => ({ invoiceId: idInPath(asked.invoice_id, 'invoice') });

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
        querystring: invoiceFormatSchema,
        response: { 200: invoiceFormats },
      },
    },
    async (request, reply) => answerInvoice(billing, invoiceNamed(request.params), request, reply),
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
      const named = invoiceNamed(request.params);
      const answer = await billing.listInvoiceTransactions({ ...named, page: { page, limit } }, asCaller(request));
      return { data: answer.transactions.map(transactionJson), pagination: paginationJson(answer.pageInfo) };
    },
  );
};
