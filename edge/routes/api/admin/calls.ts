import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import { adminEventJson, adminEventSchema } from '../usage/event-json.ts';

/** /api/v1/admin/calls: a call of any organization, by what its client was told to quote. */
export const adminCallRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/admin/calls',
    {
      config: operatorOnly,
      schema: {
        summary: 'Find a call of any organization',
        description: 'By its request id. A realtime session has one for all of its utterances.',
        response: { 200: pageOf(adminEventSchema) },
        querystring: Type.Object({
          ...pageQuerySchema,
          request_id: Type.String({ minLength: 1, maxLength: 255, description: 'The `x-request-id` of the answer.' }),
        }),
      },
    },
    async (request) => {
      const { page, limit, request_id: requestId } = request.query;
      const answer = await usage.adminFindCalls({ page: { page, limit }, requestId }, asCaller(request));
      return { data: answer.events.map(adminEventJson), pagination: paginationJson(answer.pageInfo) };
    },
  );
};
