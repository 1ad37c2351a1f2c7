import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { AuditRecord } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { appendToChains } from '../audit.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { platformChain } from '../domain/audit-chain.ts';

/** Takes over events from a service's outbox, all or none; ids that are already chained are skipped. */
export const recordAuditEvents =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'recordAuditEvents'> =>
  async (request, context) => {
    requireService(callerOf(context));
    await transaction(database, (em) => appendToChains(em, request.records.map(chained)));
    return {};
  };

const chained = (record: AuditRecord) => ({
  tenantId: record.tenantId || platformChain,
  id: record.id,
  type: record.type,
  // The column stores milliseconds, so the hash must use the same.
  occurredAtMs: Math.floor(timestampMs(record.occurredAt!)),
  actorType: record.actor!.type,
  actorId: record.actor!.id,
  actorIp: record.actor!.ip,
  targetType: record.target!.type,
  targetId: record.target!.id,
  beforeJson: record.beforeJson,
  afterJson: record.afterJson,
  requestId: record.requestId,
});
