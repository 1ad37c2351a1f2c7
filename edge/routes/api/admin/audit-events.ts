import { type Static, Type } from 'typebox';
import type { AuditEvent } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { auditEventTypes } from '#shared/audit-outbox/event-types.ts';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { idFilter, pageOf, paginationJson } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';
import { auditEventJson, auditEventSchema, auditFilter, auditQuerySchema } from '../audit-events.ts';

export const adminAuditEventSchema = Type.Object(
  {
    ...auditEventSchema.properties,
    tenant_id: orNull(
      Type.String({
        format: 'uuid',
        description: 'The organization whose chain the event is in; null for the platform.',
      }),
    ),
  },
  { $id: 'AdminAuditEvent' },
);
export const adminAuditEventJson = (event: AuditEvent): Static<typeof adminAuditEventSchema> => ({
  ...auditEventJson(event),
  tenant_id: event.record!.tenantId || null,
});

export const verificationSchema = Type.Object(
  {
    is_whole: orNull(Type.Boolean({ description: 'Null when there is more to read: `next_after_sequence`.' })),
    events_checked: Type.Integer(),
    first_broken_sequence: orNull(Type.Integer()),
    next_after_sequence: orNull(Type.Integer()),
  },
  { $id: 'AuditVerification' },
);

/**
 * The audit events of all organizations and of the platform, for operators, and the verification of a chain: a long one is verified in
 * parts, and each answer says where the next begins.
 */
export const adminAuditEventRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/admin/audit-events',
    {
      config: operatorOnly,
      schema: {
        summary: 'List the audit events of all organizations',
        description: 'Includes those of the platform itself. Newest first.',
        response: { 200: pageOf(adminAuditEventSchema) },
        querystring: Type.Object({
          ...auditQuerySchema(auditEventTypes),
          tenant_id: idFilter('Only events of this organization; the nil UUID selects those of the platform.'),
        }),
      },
    },
    async (request) => {
      const answer = await auth.adminListAuditEvents(
        { tenantId: request.query.tenant_id, filter: auditFilter(request.query) },
        asCaller(request),
      );
      return { data: answer.events.map(adminAuditEventJson), pagination: paginationJson(answer.page) };
    },
  );

  app.get(
    '/api/v1/admin/audit-events/verification',
    {
      config: operatorOnly,
      schema: {
        summary: 'Verify an audit chain',
        description:
          'A long chain is verified in parts: repeat the request with `next_after_sequence` as `after_sequence` until it is null.',
        response: { 200: verificationSchema },
        querystring: Type.Object({
          tenant_id: idFilter(
            'The organization whose chain to verify; without it, or with the nil UUID, that of the platform.',
          ),
          after_sequence: Type.Optional(
            Type.Integer({
              minimum: 0,
              maximum: Number.MAX_SAFE_INTEGER,
              description: 'Begin after this event, whose stored hash is trusted.',
            }),
          ),
          events_max: Type.Optional(
            Type.Integer({
              minimum: 1,
              maximum: 1_000_000,
              description: 'How many events to read; a call reads at most 20,000.',
            }),
          ),
        }),
      },
    },
    async (request) => {
      const { tenant_id: tenantId, after_sequence: after, events_max: eventsMax } = request.query;
      const options = asCaller(request);
      const { eventsChecked, firstBrokenSequence, nextAfterSequence } = await auth.verifyAuditChain(
        { tenantId, afterSequence: BigInt(after ?? 0), eventsMax },
        options,
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
