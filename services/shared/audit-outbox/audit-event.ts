import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { AuditActorType, type AuditRecord, AuditRecordSchema } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import type { AuditEventType } from '#shared/audit-outbox/event-types.ts';
import { invalidRequest } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { type Caller, CallerKind } from '#shared/rpc/caller.ts';

/** What a service says about a change which it made. */
export type AuditEvent = {
  /** The organization whose chain it joins; empty for the platform's own. */
  tenantId: string;
  type: AuditEventType;
  occurredAtMs: number;
  caller: Caller;
  /** Set when a platform operator acts as such, rather than on what is their own. */
  asOperator?: boolean;
  target: { type: string; id: string };
  /** The changed fields in the public API's spelling; never a secret. Undefined when there was, or is, nothing. */
  before?: object;
  after?: object;
};

/** So much Auth takes of `before` and of `after`, in bytes (AuditRecord in audit.proto). */
const fieldsBytesMax = 262_144;

/**
 * The record as Auth takes it, under an id of its own, a UUIDv7: its identity until the end of time.
 * @throws GatewayError INVALID_REQUEST when what is changed is too much to record.
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

/** What nobody can read in the audit trail is not to be had; the request gave the fields, so that it can give less. */
function newFields(after: object): string {
  const text = JSON.stringify(after);
  if (Buffer.byteLength(text) <= fieldsBytesMax) return text;
  const lengthOf = (field: string): number => JSON.stringify(after[field as keyof object])?.length ?? 0;
  const longest = Object.keys(after).reduce((a, b) => (lengthOf(b) > lengthOf(a) ? b : a));
  throw invalidRequest(
    longest,
    `Invalid value for \`${longest}\`: the changed fields may take at most ${fieldsBytesMax} bytes together.`,
    'invalid_value',
  );
}

/** What was there before may have grown by several changes, each of which is recorded; it must not keep anything from being deleted. */
function formerFields(before: object): string {
  const text = JSON.stringify(before);
  const bytes = Buffer.byteLength(text);
  return bytes <= fieldsBytesMax ? text : JSON.stringify({ left_out_bytes: bytes });
}

/** The actor behind a caller; `asOperator` when they act on the platform's behalf, rather than on what is their own. */
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
