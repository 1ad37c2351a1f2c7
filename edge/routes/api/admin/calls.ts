import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { idFilter, nameFilter, pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import { adminEventJson, adminEventSchema } from '../usage/event-json.ts';

/** /api/v1/admin/calls: a call of any organization, by what its client was told to quote, and all calls of one. */
export const adminCallRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/admin/calls',
    {
      config: operatorOnly,
      schema: {
        summary: 'Find calls of any organization',
        description:
          'By request id, which a realtime session has for all of its utterances, or all of an organization or one of its keys. Newest first.',
        response: { 200: pageOf(adminEventSchema) },
        querystring: Type.Object({
          ...pageQuerySchema,
          request_id: nameFilter('The `x-request-id` of the answer.'),
          tenant_id: idFilter('Instead of `request_id`: the organization.'),
          api_key_id: idFilter('With `tenant_id`: only calls by this key of the organization.'),
        }),
      },
    },
    async (request) => {
      const { page, limit, request_id: requestId, tenant_id: tenantId, api_key_id: apiKeyId } = request.query;
      const asked = { page: { page, limit }, requestId, tenantId, apiKeyId };
      const answer = await usage.adminFindCalls(asked, asCaller(request));
      return { data: answer.events.map(adminEventJson), pagination: paginationJson(answer.pageInfo) };
    },
  );
};
