import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { transactionInTurn } from '#shared/db/transaction.ts';
import { notFound } from '#shared/errors.ts';
import { currentVersion } from '#shared/leased-feed/versions.ts';
import { type Caller, sessionCaller } from '#shared/rpc/caller.ts';
import { appendChanges } from '../db/changes.ts';
import { findDigests, removeDigests } from '../db/digests.ts';
import type { KeyRow } from '../db/key.entity.ts';
import { lockOwnKeyIfAny } from '../db/key.repository.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { auditedFields } from './key-message.ts';

/**
 * The key's row stays for reports (DescribeKeys); its digests are removed, so that nothing can open it again. A NOT_FOUND waits for the
 * edges too: the call may repeat one that failed on the way.
 */
export const deleteKey =
  ({ database, feed, clock }: Pick<KeysDeps, 'database' | 'feed' | 'clock'>): KeysRpc<'deleteKey'> =>
  async ({ keyId }, context) => {
    const caller = sessionCaller(context);
    const turn = { tenantId: caller.tenantId, signal: context.signal };
    const { wasThere, version } = await transactionInTurn(database, turn, async (em) => {
      const key = await lockOwnKeyIfAny(em, caller, keyId);
      if (key === null) return { wasThere: false, version: await currentVersion(em) };
      return { wasThere: true, version: await remove(em, key, caller, clock.now()) };
    });
    await feed.knownEverywhere(version, context);
    if (!wasThere) throw notFound('API key');
    return {};
  };

async function remove(em: SqlEntityManager, key: KeyRow, caller: Caller, nowMs: number): Promise<bigint> {
  const before = auditedFields(key);
  key.deletedAt = new Date(nowMs);
  const digests = removeDigests(em, await findDigests(em, key));
  await recordAuditEvent(em, {
    tenantId: key.tenantId,
    type: 'api_key_deleted',
    occurredAtMs: nowMs,
    caller,
    target: { type: 'api_key', id: key.id },
    before,
  });
  return appendChanges(em, [{ kind: 'key_removed', tenantId: key.tenantId, keyId: key.id, digests }]);
}
