import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { AuditActorType, type AuditRecord, AuditRecordSchema } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { type Caller, CallerKind } from '#shared/rpc/caller.ts';

/** What a service says about a change which it made. */
export type AuditEvent = {
  /** UUIDv7; the record's identity until the end of time. */
  id: string;
  /** The organization whose chain it joins; empty for the platform's own. */
  tenantId: string;
  /** In snake case, e.g. `api_key_created`. */
  type: string;
  occurredAtMs: number;
  caller: Caller;
  /** Set when a platform operator acts as such, rather than on what is their own. */
  asOperator?: boolean;
  target: { type: string; id: string };
  /** The changed fields in the public API's spelling; never a secret. Undefined when there was, or is, nothing. */
  before?: object;
  after?: object;
};

/** The record as Auth takes it. */
export const auditRecord = (event: AuditEvent): AuditRecord =>
  create(AuditRecordSchema, {
    id: event.id,
    tenantId: event.tenantId,
    type: event.type,
    occurredAt: timestampFromMs(event.occurredAtMs),
    actor: actorOf(event.caller, event.asOperator ?? false),
    target: event.target,
    beforeJson: event.before === undefined ? '' : JSON.stringify(event.before),
    afterJson: event.after === undefined ? '' : JSON.stringify(event.after),
    requestId: event.caller.requestId,
  });

function actorOf(caller: Caller, asOperator: boolean): { type: AuditActorType; id: string; ip: string } {
  const { ip } = caller;
  switch (caller.kind) {
    case CallerKind.API_KEY:
      return { type: AuditActorType.API_KEY, id: caller.apiKeyId, ip };
    case CallerKind.SESSION:
      return { type: asOperator ? AuditActorType.OPERATOR : AuditActorType.USER, id: caller.userId, ip };
    default:
      return { type: AuditActorType.SYSTEM, id: caller.service, ip: '' };
  }
}
