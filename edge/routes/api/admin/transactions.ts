import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { idSchema, pageOf, paginationJson } from '../../../http/json.ts';
import { transactionJson, transactionSchema } from '../billing/billing-json.ts';
import {
  sendTransactions,
  transactionExportAnswer,
  transactionExportDescription,
  transactionExportQuery,
  transactionQuery,
  transactionQuerySchema,
} from '../billing/transactions.ts';
import { existingOrganization } from './organization-id.ts';

const params = Type.Object({ tenant_id: idSchema });

/** An organization's transactions for operators, who refund charges (credits.ts). */
export const adminTransactionRoutes: Routes = (app, { auth, billing }) => {
  app.get(
    '/api/v1/admin/organizations/:tenant_id/transactions',
    {
      config: operatorOnly,
      schema: {
        summary: 'List the transactions of an organization',
        description: 'Newest first.',
        response: { 200: pageOf(transactionSchema) },
        params,
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

  app.get(
    '/api/v1/admin/organizations/:tenant_id/transactions/export',
    {
      config: operatorOnly,
      schema: {
        summary: 'Export the transactions of an organization',
        description: transactionExportDescription,
        response: { 200: transactionExportAnswer },
        params,
        querystring: transactionExportQuery,
      },
    },
    async (request, reply) => {
      const options = asCaller(request);
      const tenantId = await existingOrganization(auth, request.params.tenant_id, options);
      return sendTransactions(reply, billing, request.query, tenantId, options);
    },
  );
};
