import { toBinary } from '@bufbuild/protobuf';
import { AuditRecordSchema } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import type { StatementRunner } from '#shared/db/notify.ts';
import { type AuditEvent, auditRecord } from './audit-event.ts';

/**
 * Puts an audit event into the service's outbox, in the transaction of the change itself: either both happen or neither. The
 * relay (relay.ts) hands it on to Auth, which chains it.
 */
export async function recordAuditEvent(tx: StatementRunner, event: AuditEvent): Promise<void> {
  const record = Buffer.from(toBinary(AuditRecordSchema, auditRecord(event)));
  if ('execute' in tx) await tx.execute('insert into audit_outbox (id, record) values (?, ?)', [event.id, record]);
  else await tx.query('insert into audit_outbox (id, record) values ($1, $2)', [event.id, record]);
}
