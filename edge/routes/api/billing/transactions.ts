import { type Static, type TObject, Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { readDays } from '../../../http/days.ts';
import { pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import { transactionJson, transactionSchema, transactionTypes } from './billing-json.ts';
import { daysQuerySchema } from './days-query.ts';

/** What a list of transactions is narrowed by. */
export const transactionQuerySchema = {
  ...pageQuerySchema,
  type: Type.Optional(transactionTypes.schema),
  ...daysQuerySchema,
};
type TransactionQuery = Static<TObject<typeof transactionQuerySchema>>;

/** The same as Billing takes it. */
export const transactionQuery = ({ page, limit, type, ...days }: TransactionQuery) => ({
  page: { page, limit },
  type: transactionTypes.value(type),
  ...readDays(days),
});

/** The organization's transactions (service.md, Management endpoints). */
export const transactionRoutes: Routes = (app, { billing }) => {
  app.get(
    '/api/v1/billing/documents/transactions',
    {
      config: { access: { surface: 'api', scope: 'billing:read_invoices', role: 'admin' } },
      schema: {
        summary: 'List transactions',
        description: 'Newest first.',
        querystring: Type.Object(transactionQuerySchema),
        response: { 200: pageOf(transactionSchema) },
      },
    },
    async (request) => {
      const answer = await billing.listTransactions(transactionQuery(request.query), asCaller(request));
      return { data: answer.transactions.map(transactionJson), pagination: paginationJson(answer.pageInfo) };
    },
  );
};
