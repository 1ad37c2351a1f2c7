import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import { asCaller } from '../../../caller.ts';
import { paginationJson } from '../../../http/json.ts';
import type { Routes } from '../../routes.ts';
import { auditEventJson, auditFilter, auditQuerySchema } from '../audit-events.ts';

/** The audit events of all organizations and of the platform, for operators, and the check of a chain: in parts where it is long, each answer saying where the next begins. */
export const adminAuditEventRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/admin/audit-events',
    {
      config: operatorOnly,
      schema: { querystring: Type.Object({ ...auditQuerySchema, tenant_id: Type.Optional(Type.String()) }) },
    },
    async (request) => {
      const answer = await auth.adminListAuditEvents(
        { tenantId: request.query.tenant_id ?? '', filter: auditFilter(request.query) },
        asCaller(request),
      );
      const data = answer.events.map((event) => ({
        ...auditEventJson(event),
        tenant_id: event.record!.tenantId || null,
      }));
      return { data, pagination: paginationJson(answer.page) };
    },
  );

  app.get(
    '/api/v1/admin/audit-events/verification',
    {
      config: operatorOnly,
      schema: {
        querystring: Type.Object({
          tenant_id: Type.Optional(Type.String()),
          after_sequence: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
          events_max: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
        }),
      },
    },
    async (request) => {
      const { tenant_id: tenantId, after_sequence: after, events_max: eventsMax } = request.query;
      const { eventsChecked, firstBrokenSequence, nextAfterSequence } = await auth.verifyAuditChain(
        { tenantId, afterSequence: BigInt(after ?? 0), eventsMax },
        asCaller(request),
      );
      const isPart = nextAfterSequence !== undefined;
      return {
        is_whole: isPart ? null : firstBrokenSequence === undefined,
        events_checked: Number(eventsChecked),
        first_broken_sequence: firstBrokenSequence === undefined ? null : Number(firstBrokenSequence),
        next_after_sequence: isPart ? Number(nextAfterSequence) : null,
      };
    },
  );
};
