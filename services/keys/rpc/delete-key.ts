import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { transaction } from '#shared/db/transaction.ts';
import { sessionCaller } from '#shared/rpc/caller.ts';
import { appendChanges } from '../db/changes.ts';
import { findDigests, removeDigests } from '../db/digests.ts';
import { lockOwnKey } from '../db/key.repository.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { auditedFields } from './key-message.ts';

/** The key's row stays for reports (DescribeKeys); its digests go, so that nothing can open it again. */
export const deleteKey =
  ({ database, feed, clock }: Pick<KeysDeps, 'database' | 'feed' | 'clock'>): KeysRpc<'deleteKey'> =>
  async ({ keyId }, context) => {
    const caller = sessionCaller(context);
    const nowMs = clock.now();
    const version = await transaction(database, async (em) => {
      const key = await lockOwnKey(em, caller, keyId);
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
    });
    await feed.knownEverywhere(version, context.signal);
    return {};
  };
