import { Type } from 'typebox';
import { invalidRequest, invalidValue } from '#shared/errors.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { idFilter, nameFilter, pageOf, paginationJson } from '../../../http/json.ts';
import { eventJson, eventSchema } from './event-json.ts';
import { callsQuery, readCalls } from './query.ts';

/** Events per answer by default, and how many of a range can be skipped (decisions.md, Usage). */
const limitDefault = 50;
const offsetMax = 1_000_000;

/** The events themselves, newest first. */
export const usageHistoryRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/usage/history',
    {
      config: { access: { surface: 'api', scope: 'usage:read_history' } },
      schema: {
        summary: 'List calls',
        description:
          'Newest first. Covers what the caller used, unless `scope` says otherwise. Without a date, that end of the range is open. ' +
          'Calls are kept for the current month and the 24 before it; only their sums are kept for longer.',
        response: { 200: pageOf(eventSchema) },
        querystring: Type.Object({
          ...callsQuery,
          success: Type.Optional(
            Type.Boolean({ description: 'Only calls that succeeded, or only those that failed; all by default.' }),
          ),
          request_id: nameFilter('Only the call whose answer had this `x-request-id`.'),
          event_id: idFilter('Only this call, by its `id`, which its charge has as `usage_event_id`.'),
          limit: Type.Optional(
            Type.Integer({ minimum: 1, maximum: 500, description: `Items per page; ${limitDefault} by default.` }),
          ),
          offset: Type.Optional(
            Type.Integer({ minimum: 0, maximum: offsetMax, description: 'How many to skip, instead of a `page`.' }),
          ),
          page: Type.Optional(Type.Integer({ minimum: 1, description: 'Starts at 1, the default.' })),
        }),
      },
    },
    async (request) => {
      const { query } = request;
      const limit = query.limit ?? limitDefault;
      const answer = await usage.listHistory(
        {
          ...readCalls(query),
          success: query.success,
          requestId: query.request_id,
          eventId: query.event_id,
          limit,
          offset: readOffset(query, limit),
        },
        asCaller(request),
      );
      return { data: answer.events.map(eventJson), pagination: paginationJson(answer.pageInfo) };
    },
  );
};

/** How many events to skip: by `offset`, or by `page` as in every other list. */
function readOffset({ page, offset }: { page?: number; offset?: number }, limit: number): number {
  if (page === undefined) return offset ?? 0;
  if (offset !== undefined) throw invalidRequest('page', 'Give `page` or `offset`, not both.', 'invalid_value');
  const pageMax = Math.floor(offsetMax / limit) + 1;
  if (page > pageMax) throw invalidValue('page', `it must be at most ${pageMax}`);
  return (page - 1) * limit;
}
