import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { AuditActorType, type AuditRecord, AuditRecordSchema } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import type { AuditEventType } from '#shared/audit-outbox/event-types.ts';
import { invalidValue } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { type Caller, CallerKind } from '#shared/rpc/caller.ts';

/** A change that a service made, for the audit trail. */
export type AuditEvent = {
  /** The organization whose chain the event joins; empty for the platform's own. */
  tenantId: string;
  type: AuditEventType;
  occurredAtMs: number;
  caller: Caller;
  /** Set when a platform operator acts as such, not on something of their own. */
  asOperator?: boolean;
  target: { type: string; id: string };
  /** The changed fields, spelled as in the public API; never a secret. Undefined when there was, or is, nothing. */
  before?: object;
  after?: object;
};

/** The longest `before` or `after` that Auth accepts, in bytes (AuditRecord in audit.proto). */
const fieldsBytesMax = 262_144;

/**
 * The event in the form that Auth accepts, with a new id, a UUIDv7, by which it is known from then on. @throws GatewayError INVALID_REQUEST
 * when the change is too large to record.
 */
export const auditRecord = (event: AuditEvent): AuditRecord =>
  create(AuditRecordSchema, {
    id: uuidv7(),
    tenantId: event.tenantId,
    type: event.type,
    occurredAt: timestampFromMs(event.occurredAtMs),
    actor: auditActor(event.caller, event.asOperator),
    target: event.target,
    beforeJson: event.before === undefined ? '' : formerFields(event.before),
    afterJson: event.after === undefined ? '' : newFields(event.after),
    requestId: event.caller.requestId,
  });

/** A change that the trail cannot show is refused; the fields come from the request, so a smaller request can succeed. */
function newFields(after: object): string {
  const text = JSON.stringify(after);
  if (Buffer.byteLength(text) <= fieldsBytesMax) return text;
  const lengthOf = (field: string): number => JSON.stringify(after[field as keyof object])?.length ?? 0;
  const longest = Object.keys(after).reduce((a, b) => (lengthOf(b) > lengthOf(a) ? b : a));
  throw invalidValue(longest, `the changed fields may take at most ${fieldsBytesMax} bytes together`);
}

/** The former state may have grown over several changes, each of which is recorded; it must not prevent a deletion. */
function formerFields(before: object): string {
  const text = JSON.stringify(before);
  const bytes = Buffer.byteLength(text);
  return bytes <= fieldsBytesMax ? text : JSON.stringify({ left_out_bytes: bytes });
}

/** The actor behind a caller; `asOperator` when they act on the platform's behalf, not on something of their own. */
export function auditActor(caller: Caller, asOperator = false): { type: AuditActorType; id: string; ip: string } {
  const { ip } = caller;
  switch (caller.kind) {
    case CallerKind.API_KEY:
      return { type: AuditActorType.API_KEY, id: caller.apiKeyId, ip };
    case CallerKind.SESSION:
      return { type: asOperator ? AuditActorType.OPERATOR : AuditActorType.USER, id: caller.userId, ip };
    default:
      return { type: AuditActorType.SYSTEM, id: caller.service, ip };
  }
}
