import type { CallOptions, Client } from '@connectrpc/connect';
import type { FastifyReply } from 'fastify';
import { type Static, type TObject, Type } from 'typebox';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { sendCsv } from '../../../http/csv-answer.ts';
import { readDays } from '../../../http/days.ts';
import { idFilter, pageOf, pageQuerySchema, paginationJson, readId } from '../../../http/json.ts';
import { transactionJson, transactionSchema, transactionTypes } from './billing-json.ts';
import { daysQuerySchema } from './days-query.ts';

/** What a list of transactions is narrowed by. */
export const transactionQuerySchema = {
  ...pageQuerySchema,
  type: Type.Optional(transactionTypes.schema),
  usage_event_id: idFilter('Only the charge of this call, by its `id` in `/usage/history`.'),
  ...daysQuerySchema,
};
type TransactionQuery = Static<TObject<typeof transactionQuerySchema>>;

/** The query of a list of transactions as Billing takes it. */
export const transactionQuery = ({ page, limit, type, usage_event_id: eventId, ...days }: TransactionQuery) => ({
  page: { page, limit },
  type: transactionTypes.value(type),
  usageEventIds: eventId === undefined ? [] : [readId(eventId, 'usage_event_id')],
  ...readDays(days),
});

/** What an export of transactions is narrowed by. */
export const transactionExportQuery = Type.Object({
  type: Type.Optional(transactionTypes.schema),
  ...daysQuerySchema,
});

export const transactionExportDescription =
  'All of them as CSV with a header line, oldest first. A value that a spreadsheet would take for a formula is prefixed with an apostrophe.';

export const transactionExportAnswer = { content: { 'text/csv': { schema: Type.String() } } };

/** Answers with the transactions of an organization (UUID; empty: the caller's own) as a file. */
export function sendTransactions(
  reply: FastifyReply,
  billing: Pick<Client<typeof BillingService>, 'exportTransactions'>,
  { type, ...days }: Static<typeof transactionExportQuery>,
  tenantId: string,
  options: CallOptions,
): Promise<FastifyReply> {
  const { start_date: start, end_date: end } = days;
  const narrowing = { type: transactionTypes.value(type), ...readDays(days), tenantId };
  return sendCsv(reply, {
    name: `${['transactions', start && `from_${start}`, end && `to_${end}`].filter(Boolean).join('_')}.csv`,
    columns,
    open: (signal) => billing.exportTransactions(narrowing, { ...options, signal }),
    rowsOf: ({ transactions }) => transactions.map(transactionJson).map((row) => columns.map((column) => row[column])),
  });
}

/** The fields of a transaction in JSON, in the same order. */
const columns = Object.keys(transactionSchema.properties) as (keyof Static<typeof transactionSchema>)[];

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

  app.get(
    '/api/v1/billing/documents/transactions/export',
    {
      config: { access: { surface: 'session', role: 'admin' } },
      schema: {
        summary: 'Export transactions',
        description: transactionExportDescription,
        querystring: transactionExportQuery,
        response: { 200: transactionExportAnswer },
      },
    },
    async (request, reply) => sendTransactions(reply, billing, request.query, '', asCaller(request)),
  );
};
