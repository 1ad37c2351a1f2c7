import { Type } from 'typebox';
import { InvoiceStatus, PaymentStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../../../caller.ts';
import { paginationJson } from '../../../http/json.ts';
import { pageQuerySchema, type Routes } from '../../routes.ts';
import {
  invoiceJson,
  invoiceStatuses,
  invoiceWithLinesJson,
  paymentStatuses,
  transactionJson,
} from './billing-json.ts';

/** Invoices, each with its line items, as JSON or PDF, and its transactions (service.md, Management endpoints). */
export const invoiceRoutes: Routes = (app, { billing }) => {
  const config = { access: { surface: 'api', scope: 'billing:read_invoices', role: 'admin' } } as const;
  const params = Type.Object({ invoice_id: Type.String() });

  app.get(
    '/api/v1/billing/documents/invoices',
    {
      config,
      schema: {
        querystring: Type.Object({
          ...pageQuerySchema,
          status: Type.Optional(Type.Union([Type.Literal('draft'), Type.Literal('finalized'), Type.Literal('voided')])),
          payment_status: Type.Optional(
            Type.Union([Type.Literal('pending'), Type.Literal('paid'), Type.Literal('overdue')]),
          ),
        }),
      },
    },
    async (request) => {
      const { page, limit, status, payment_status: payment } = request.query;
      const answer = await billing.listInvoices(
        {
          page: { page, limit },
          status: status === undefined ? InvoiceStatus.UNSPECIFIED : invoiceStatuses[status],
          paymentStatus: payment === undefined ? PaymentStatus.UNSPECIFIED : paymentStatuses[payment],
        },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return { data: answer.invoices.map(invoiceJson), pagination: paginationJson(answer.pageInfo) };
    },
  );

  app.get(
    '/api/v1/billing/documents/invoices/:invoice_id',
    {
      config,
      schema: {
        params,
        querystring: Type.Object({
          format: Type.Optional(Type.Union([Type.Literal('json'), Type.Literal('pdf')])),
        }),
      },
    },
    async (request, reply) => {
      const { invoice_id: invoiceId } = request.params;
      const options = { contextValues: callerContext(callerOfRequest(request)) };
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
    { config, schema: { params, querystring: Type.Object(pageQuerySchema) } },
    async (request) => {
      const answer = await billing.listInvoiceTransactions(
        { invoiceId: request.params.invoice_id, page: request.query },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return { data: answer.transactions.map(transactionJson), pagination: paginationJson(answer.pageInfo) };
    },
  );
};
