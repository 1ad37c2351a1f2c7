import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { transaction } from '#shared/db/transaction.ts';
import { currentVersion } from '#shared/leased-feed/versions.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { appendChanges } from '../db/changes.ts';
import { findDigests, removeDigests } from '../db/digests.ts';
import { lockKey } from '../db/key.repository.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { keyMessage } from './key-message.ts';

/** Revoking a revoked key changes nothing, but still waits for the edges, since the call may be a repeat. */
export const revokeKey =
  ({ database, feed, clock }: Pick<KeysDeps, 'database' | 'feed' | 'clock'>): KeysRpc<'revokeKey'> =>
  async ({ keyId, reason }, context) => {
    const caller = operatorCaller(context);
    const nowMs = clock.now();
    const { key, version } = await transaction(database, async (em) => {
      const key = await lockKey(em, keyId);
      if (key.revokedAt !== null) return { key, version: await currentVersion(em) };
      key.revokedAt = new Date(nowMs);
      const digests = removeDigests(em, await findDigests(em, key));
      await recordAuditEvent(em, {
        tenantId: key.tenantId,
        type: 'api_key_revoked',
        occurredAtMs: nowMs,
        caller,
        asOperator: true,
        target: { type: 'api_key', id: key.id },
        after: { revoked_at: key.revokedAt.toISOString(), reason },
      });
      const change = { kind: 'key_removed', tenantId: key.tenantId, keyId: key.id, digests } as const;
      return { key, version: await appendChanges(em, [change]) };
    });
    await feed.knownEverywhere(version, context);
    return { key: keyMessage(key, nowMs) };
  };
