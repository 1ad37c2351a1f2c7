import { type Static, type TObject, Type } from 'typebox';
import { AuditActorType, type AuditEvent } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { asCaller } from '../../caller.ts';
import { isoTime, paginationJson, parseTimeIfGiven, timeSchema } from '../../http/json.ts';
import { spelling } from '../../http/spelling.ts';
import { pageQuerySchema, type Routes } from '../routes.ts';

/** What narrows a list of audit events. */
export const auditQuerySchema = {
  ...pageQuerySchema,
  type: Type.Optional(Type.String({ maxLength: 100 })),
  actor_id: Type.Optional(Type.String({ maxLength: 255 })),
  target_id: Type.Optional(Type.String({ maxLength: 255 })),
  occurred_from: Type.Optional(timeSchema),
  occurred_before: Type.Optional(timeSchema),
  sequence: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
};

type AuditQuery = Static<TObject<typeof auditQuerySchema>>;

/** The audit events of the caller's organization (decisions.md, Auth): admins and owners, sessions only. */
export const auditEventRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/audit-events',
    {
      config: { access: { surface: 'session', role: 'admin' } },
      schema: { querystring: Type.Object(auditQuerySchema) },
    },
    async (request) => {
      const answer = await auth.listAuditEvents(auditFilter(request.query), asCaller(request));
      return { data: answer.events.map(auditEventJson), pagination: paginationJson(answer.page) };
    },
  );
};

export const auditFilter = (query: AuditQuery) => ({
  page: { page: query.page, limit: query.limit },
  type: query.type ?? '',
  actorId: query.actor_id ?? '',
  targetId: query.target_id ?? '',
  occurredFrom: parseTimeIfGiven(query.occurred_from, 'occurred_from'),
  occurredBefore: parseTimeIfGiven(query.occurred_before, 'occurred_before'),
  sequence: BigInt(query.sequence ?? 0),
});

/** An audit event with its place in the chain, so that a reader can check it. */
export function auditEventJson({ record, sequence, previousHash, hash }: AuditEvent) {
  const { actor, target, beforeJson, afterJson } = record!;
  return {
    id: record!.id,
    type: record!.type,
    occurred_at: isoTime(record!.occurredAt),
    actor: { type: actorTypes.name(actor!.type) ?? 'system', id: actor!.id || null, ip: actor!.ip || null },
    target: { type: target!.type, id: target!.id || null },
    changes:
      beforeJson === '' && afterJson === '' ? null : { before: jsonOrNull(beforeJson), after: jsonOrNull(afterJson) },
    request_id: record!.requestId || null,
    sequence: Number(sequence),
    previous_hash: Buffer.from(previousHash).toString('hex') || null,
    hash: Buffer.from(hash).toString('hex'),
  };
}

const actorTypes = spelling({
  user: AuditActorType.USER,
  api_key: AuditActorType.API_KEY,
  operator: AuditActorType.OPERATOR,
  system: AuditActorType.SYSTEM,
});

const jsonOrNull = (text: string): unknown => (text === '' ? null : JSON.parse(text));
