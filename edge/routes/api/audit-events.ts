import { type Static, type TObject, Type } from 'typebox';
import { AuditActorType, type AuditEvent } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { type AuditEventType, organizationEventTypes } from '#shared/audit-outbox/event-types.ts';
import type { Routes } from '../../app.ts';
import { asCaller } from '../../caller.ts';
import {
  idSchema,
  isoTime,
  isoTimeSchema,
  nameFilter,
  pageOf,
  pageQuerySchema,
  paginationJson,
  parseTimeIfGiven,
  timeSchema,
} from '../../http/json.ts';
import { orNull } from '../../http/nullable.ts';
import { spelling } from '../../http/spelling.ts';

/** What narrows a list of audit events of these types. */
export const auditQuerySchema = (types: readonly AuditEventType[]) => ({
  ...pageQuerySchema,
  type: Type.Optional(Type.Enum([...types], { description: 'What happened.' })),
  actor_id: nameFilter(),
  target_id: nameFilter(),
  occurred_from: Type.Optional(timeSchema),
  occurred_before: Type.Optional(timeSchema),
  sequence: Type.Optional(
    Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'The position in its chain.' }),
  ),
});

type AuditQuery = Static<TObject<ReturnType<typeof auditQuerySchema>>>;

/** The audit events of the caller's organization (decisions.md, Auth): admins and owners, sessions only. */
export const auditEventRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/audit-events',
    {
      config: { access: { surface: 'session', role: 'admin' } },
      schema: {
        summary: 'List audit events',
        description: 'Those of your organization, newest first.',
        response: { 200: pageOf(auditEventSchema) },
        querystring: Type.Object(auditQuerySchema(organizationEventTypes)),
      },
    },
    async (request) => {
      const answer = await auth.listAuditEvents(auditFilter(request.query), asCaller(request));
      return { data: answer.events.map(auditEventJson), pagination: paginationJson(answer.page) };
    },
  );
};

export const auditFilter = (query: AuditQuery) => ({
  page: { page: query.page, limit: query.limit },
  type: query.type,
  actorId: query.actor_id,
  targetId: query.target_id,
  occurredFrom: parseTimeIfGiven(query.occurred_from, 'occurred_from'),
  occurredBefore: parseTimeIfGiven(query.occurred_before, 'occurred_before'),
  sequence: BigInt(query.sequence ?? 0),
});

const actorTypes = spelling({
  user: AuditActorType.USER,
  api_key: AuditActorType.API_KEY,
  operator: AuditActorType.OPERATOR,
  system: AuditActorType.SYSTEM,
});

const fieldsSchema = orNull(Type.Record(Type.String(), Type.Unknown()));

/** An audit event with its place in the chain, so that a reader can check it. */
export const auditEventSchema = Type.Object(
  {
    id: idSchema,
    type: Type.String(),
    occurred_at: isoTimeSchema,
    actor: Type.Object({ type: actorTypes.schema, id: orNull(Type.String()), ip: orNull(Type.String()) }),
    target: Type.Object({ type: Type.String(), id: orNull(Type.String()) }),
    changes: orNull(
      Type.Object(
        { before: fieldsSchema, after: fieldsSchema },
        {
          description:
            'The changed fields, as this API spells them. Of a list with more than 20 entries: how many there were and are (`count`), and which were `removed` or `added`.',
        },
      ),
    ),
    request_id: orNull(Type.String()),
    sequence: Type.Integer({ description: "Its place in its organization's chain, from 1." }),
    previous_hash: orNull(Type.String({ description: 'The hash of the previous event; null for the first.' })),
    hash: Type.String({ description: 'SHA-256 over `previous_hash` and this event, in hex.' }),
  },
  { $id: 'AuditEvent' },
);
export function auditEventJson({ record, sequence, previousHash, hash }: AuditEvent): Static<typeof auditEventSchema> {
  const { actor, target, beforeJson, afterJson } = record!;
  return {
    id: record!.id,
    type: record!.type,
    occurred_at: isoTime(record!.occurredAt!),
    actor: { type: actorTypes.name(actor!.type), id: actor!.id || null, ip: actor!.ip || null },
    target: { type: target!.type, id: target!.id || null },
    changes:
      beforeJson === '' && afterJson === '' ? null : { before: jsonOrNull(beforeJson), after: jsonOrNull(afterJson) },
    request_id: record!.requestId || null,
    sequence: Number(sequence),
    previous_hash: Buffer.from(previousHash).toString('hex') || null,
    hash: Buffer.from(hash).toString('hex'),
  };
}

const jsonOrNull = (text: string): Record<string, unknown> | null => (text === '' ? null : JSON.parse(text));
