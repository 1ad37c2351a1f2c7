import { toBinary } from '@bufbuild/protobuf';
import { AuditRecordSchema } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { run, type StatementRunner } from '#shared/db/run.ts';
import { type AuditEvent, auditRecord } from './audit-event.ts';

/**
 * Puts an audit event into the service's outbox in the transaction of the change: either both happen or neither. The relay (relay.ts) hands
 * it to Auth, which chains it.
 */
export async function recordAuditEvent(tx: StatementRunner, event: AuditEvent): Promise<void> {
  const record = auditRecord(event);
  const bytes = Buffer.from(toBinary(AuditRecordSchema, record));
  await run(tx, 'insert into audit_outbox (id, record) values (?, ?)', [record.id, bytes]);
}
