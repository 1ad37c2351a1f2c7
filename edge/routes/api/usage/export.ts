import { type Static, Type } from 'typebox';
import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { sendCsv } from '../../../http/csv-answer.ts';
import { eventJson, eventSchema } from './event-json.ts';
import { callsQuery, readCalls, requiredRange } from './query.ts';

/** All events of a range as CSV, streamed page by page, for sessions of admin and owner. */
export const usageExportRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/usage/export',
    {
      config: { access: { surface: 'session', role: 'admin' } },
      schema: {
        summary: 'Export calls',
        description:
          'The calls of at most 366 days as CSV with a header line, oldest first. Covers the whole organization, unless `scope` is `own`. ' +
          'Calls are kept for the current month and the 24 before it; earlier ones are missing. ' +
          '`api_key_name`, the last column, is empty for sessions and while names cannot be read. A value that a spreadsheet would take for a formula is prefixed with an apostrophe.',
        querystring: Type.Object(callsQuery),
        requiredQuery: requiredRange,
        response: { 200: { content: { 'text/csv': { schema: Type.String() } } } },
      },
    },
    async (request, reply) => {
      const { query } = request;
      const names = new Map<string, string>();
      return sendCsv(reply, {
        name: `usage_${query.start_date}_${query.end_date}.csv`,
        columns,
        open: (signal) => usage.exportEvents(readCalls(query, UsageScope.TENANT), { ...asCaller(request), signal }),
        rowsOf: ({ keys, events }) => {
          for (const [id, { name }] of Object.entries(keys)) names.set(id, name);
          return events.map((event) => {
            const row = { ...eventJson(event), api_key_name: names.get(event.apiKeyId) };
            return columns.map((column) => row[column]);
          });
        },
      });
    },
  );
};

/** Those of an event in JSON, in the same order. */
const columns = [
  ...(Object.keys(eventSchema.properties) as (keyof Static<typeof eventSchema>)[]),
  'api_key_name',
] as const;
