import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idSchema, pageOf, paginationJson, parseTimeIfGiven, timeSchema } from '../../../http/json.ts';
import { nullable } from '../../../http/nullable.ts';
import {
  invoiceJson,
  invoiceSchema,
  invoiceWithLinesJson,
  invoiceWithLinesSchema,
  transactionJson,
  transactionSchema,
} from '../billing/billing-json.ts';
import { invoiceQuery, invoiceQuerySchema } from '../billing/invoices.ts';
import { transactionQuery, transactionQuerySchema } from '../billing/transactions.ts';
import { idInPath } from '../id-in-path.ts';
import { existingOrganization, organizationId } from './organization-id.ts';

const params = Type.Object({ tenant_id: idSchema, invoice_id: idSchema });

/**
 * An organization's invoices for operators, who record that one was paid elsewhere, or void one; and its transactions, which they refund.
 */
export const adminInvoiceRoutes: Routes = (app, { auth, billing }) => {
  const organizationParams = Type.Object({ tenant_id: idSchema });

  app.get(
    '/api/v1/admin/organizations/:tenant_id/invoices',
    {
      config: operatorOnly,
      schema: {
        summary: 'List the invoices of an organization',
        response: { 200: pageOf(invoiceSchema) },
        params: organizationParams,
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
        response: { 200: invoiceWithLinesSchema },
        params,
      },
    },
    async (request) => {
      const { invoice } = await billing.getInvoice(
        {
          tenantId: organizationId(request.params.tenant_id),
          invoiceId: idInPath(request.params.invoice_id, 'invoice'),
        },
        asCaller(request),
      );
      return invoiceWithLinesJson(invoice!);
    },
  );

  app.get(
    '/api/v1/admin/organizations/:tenant_id/transactions',
    {
      config: operatorOnly,
      schema: {
        summary: 'List the transactions of an organization',
        response: { 200: pageOf(transactionSchema) },
        params: organizationParams,
        querystring: Type.Object(transactionQuerySchema),
      },
    },
    async (request) => {
      const options = asCaller(request);
      const tenantId = await existingOrganization(auth, request.params.tenant_id, options);
      const answer = await billing.listTransactions({ ...transactionQuery(request.query), tenantId }, options);
      return { data: answer.transactions.map(transactionJson), pagination: paginationJson(answer.pageInfo) };
    },
  );

  app.post(
    '/api/v1/admin/organizations/:tenant_id/invoices/:invoice_id/pay',
    {
      config: operatorOnly,
      schema: {
        summary: 'Mark an invoice as paid',
        description: 'For a finalized invoice that was paid elsewhere. `paid_at` defaults to now.',
        response: { 200: invoiceWithLinesSchema },
        params,
        body: nullable(onlyFields({ paid_at: Type.Optional(timeSchema) })),
      },
    },
    async (request) => {
      const { invoice } = await billing.markInvoicePaid(
        {
          tenantId: organizationId(request.params.tenant_id),
          invoiceId: idInPath(request.params.invoice_id, 'invoice'),
          paidAt: parseTimeIfGiven(request.body?.paid_at, 'paid_at'),
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
