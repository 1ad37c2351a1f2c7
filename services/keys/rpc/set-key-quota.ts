import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { KeyQuota } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import { transaction } from '#shared/db/transaction.ts';
import { invalidRequest } from '#shared/errors.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { findQuota } from '../db/owners.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { effectiveQuota, type StoredQuota } from '../domain/key-quota.ts';
import { quotaMessage, quotaText } from './quota-message.ts';

export const setKeyQuota =
  ({ database, clock }: Pick<KeysDeps, 'database' | 'clock'>): KeysRpc<'setKeyQuota'> =>
  async ({ tenantId, quota: asked }, context) => {
    const caller = operatorCaller(context);
    const quota = chosenQuota(asked!);
    await transaction(database, async (em) => {
      await takeAdvisoryLock(em, `key quota of ${tenantId}`);
      const before = await findQuota(em, tenantId);
      if (before === quota) return;
      await storeQuota(em, tenantId, quota);
      await recordAuditEvent(em, {
        tenantId,
        type: 'key_quota_updated',
        occurredAtMs: clock.now(),
        caller,
        asOperator: true,
        target: { type: 'organization', id: tenantId },
        before: { keys_per_user: quotaText(before) },
        after: { keys_per_user: quotaText(quota) },
      });
    });
    return { quota: quotaMessage(quota), effectiveKeysPerUser: effectiveQuota(quota) ?? undefined };
  };

function chosenQuota({ quota }: KeyQuota): StoredQuota {
  if (quota.case === 'keysPerUser') return quota.value;
  if (quota.case === 'unlimited' && quota.value) return null;
  if (quota.case === 'platformDefault' && quota.value) return undefined;
  throw invalidRequest('quota', 'Choose a quota: the default, a number of keys per user, or unlimited.');
}

async function storeQuota(em: SqlEntityManager, tenantId: string, quota: StoredQuota): Promise<void> {
  if (quota === undefined) {
    await em.execute('delete from quotas where tenant_id = ?', [tenantId]);
    return;
  }
  await em.execute(
    `insert into quotas (tenant_id, keys_per_user) values (?, ?)
     on conflict (tenant_id) do update set keys_per_user = excluded.keys_per_user`,
    [tenantId, quota],
  );
}
