import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { daySchema, readDays } from '../../../http/days.ts';
import { idFilter, nameFilter, pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import { adminEventJson, adminEventSchema } from '../usage/event-json.ts';

/** /api/v1/admin/calls: what its client was told to quote leads to a call of any organization, and so does what else is known of it. */
export const adminCallRoutes: Routes = (app, { usage }) => {
  app.get(
    '/api/v1/admin/calls',
    {
      config: operatorOnly,
      schema: {
        summary: 'Find calls of any organization',
        description:
          'Newest first. By `request_id` or `event_id` of any time. With `tenant_id` of any time too, unless with `deployment_id`. ' +
          'Otherwise of at most seven days, in UTC: by default the last ones.',
        response: { 200: pageOf(adminEventSchema) },
        querystring: Type.Object({
          ...pageQuerySchema,
          request_id: nameFilter(
            'The `x-request-id` of the answer, which a realtime session has for all of its utterances.',
          ),
          event_id: idFilter('Only this call, by its `id`, which its charge has as `usage_event_id`.'),
          tenant_id: idFilter('Only calls of this organization.'),
          user_id: idFilter(),
          api_key_id: idFilter(),
          model: nameFilter(),
          deployment_id: idFilter('With `success=false`: only calls that this deployment answered last.'),
          success: Type.Optional(
            Type.Boolean({ description: 'Only calls that succeeded, or only those that failed; all by default.' }),
          ),
          start_date: daySchema('The first day, as YYYY-MM-DD, in UTC.'),
          end_date: daySchema('The last day, inclusive.'),
        }),
      },
    },
    async (request) => {
      const { query } = request;
      const answer = await usage.adminFindCalls(
        {
          page: { page: query.page, limit: query.limit },
          requestId: query.request_id,
          eventId: query.event_id,
          tenantId: query.tenant_id,
          userId: query.user_id,
          apiKeyId: query.api_key_id,
          model: query.model,
          deploymentId: query.deployment_id,
          success: query.success,
          range: readDays(query),
        },
        asCaller(request),
      );
      return { data: answer.events.map(adminEventJson), pagination: paginationJson(answer.pageInfo) };
    },
  );
};
