import { finished, Readable } from 'node:stream';
import { type Static, Type } from 'typebox';
import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import type { ExportEventsResponse } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { csvTextCell } from '#shared/csv.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { noStore } from '../../../http/no-store.ts';
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
      const pages = usage.exportEvents(readCalls(query, UsageScope.TENANT), asCaller(request))[Symbol.asyncIterator]();
      // A refusal comes with the first page, while the answer can still be an error.
      const first = await pages.next();
      // When the client leaves, the RPC ends. A `finally` in csvText would not run if that is before its first line.
      finished(reply.raw, () => void pages.return?.());
      const name = `usage_${query.start_date}_${query.end_date}.csv`;
      return noStore(reply)
        .header('content-type', 'text/csv; charset=utf-8; header=present')
        .header('content-disposition', `attachment; filename="${name}"`)
        .send(Readable.from(csvText(first, pages)));
    },
  );
};

/** Those of an event in JSON, in the same order. */
const columns = [
  ...(Object.keys(eventSchema.properties) as (keyof Static<typeof eventSchema>)[]),
  'api_key_name',
] as const;

type Pages = AsyncIterator<ExportEventsResponse>;

async function* csvText(first: IteratorResult<ExportEventsResponse>, pages: Pages): AsyncGenerator<string> {
  const names = new Map<string, string>();
  yield csvLine(columns);
  for (let page = first; page.done !== true; page = await pages.next()) {
    for (const [id, { name }] of Object.entries(page.value.keys)) names.set(id, name);
    yield page.value.events
      .map((event) => {
        const row = { ...eventJson(event), api_key_name: names.get(event.apiKeyId) };
        return csvLine(columns.map((column) => row[column]));
      })
      .join('');
  }
}

const csvLine = (cells: readonly unknown[]): string => `${cells.map(csvCell).join(',')}\r\n`;

/** Money comes as JSON.rawJSON and keeps its exact decimals. */
function csvCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'string' ? csvTextCell(value) : JSON.stringify(value);
}
