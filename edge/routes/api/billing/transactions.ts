import { Type } from 'typebox';
import { asCaller } from '../../../caller.ts';
import { paginationJson } from '../../../http/json.ts';
import { pageQuerySchema, type Routes } from '../../routes.ts';
import { transactionJson, transactionTypes } from './billing-json.ts';

const daySchema = Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$' });

/** The organization's transactions (service.md, Management endpoints). */
export const transactionRoutes: Routes = (app, { billing }) => {
  app.get(
    '/api/v1/billing/documents/transactions',
    {
      config: { access: { surface: 'api', scope: 'billing:read_invoices', role: 'admin' } },
      schema: {
        querystring: Type.Object({
          ...pageQuerySchema,
          type: Type.Optional(transactionTypes.schema),
          start_date: Type.Optional(daySchema),
          end_date: Type.Optional(daySchema),
        }),
      },
    },
    async (request) => {
      const { page, limit, type, start_date: startDate, end_date: endDate } = request.query;
      const answer = await billing.listTransactions(
        {
          page: { page, limit },
          type: transactionTypes.value(type),
          startDate: startDate ?? '',
          endDate: endDate ?? '',
        },
        asCaller(request),
      );
      return { data: answer.transactions.map(transactionJson), pagination: paginationJson(answer.pageInfo) };
    },
  );
};
