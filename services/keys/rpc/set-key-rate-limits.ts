import { KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { changedFields } from '#shared/changed-fields.ts';
import { transaction } from '#shared/db/transaction.ts';
import { invalidValue } from '#shared/errors.ts';
import { currentVersion } from '#shared/leased-feed/versions.ts';
import { nextLimits, ownLimitFields } from '#shared/rate-limits.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { appendChanges } from '../db/changes.ts';
import { lockKey } from '../db/key.repository.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { keyMessage } from './key-message.ts';

export const setKeyRateLimits =
  ({ database, feed, clock }: Pick<KeysDeps, 'database' | 'feed' | 'clock'>): KeysRpc<'setKeyRateLimits'> =>
  async ({ keyId, rateLimits, changes }, context) => {
    const caller = operatorCaller(context);
    const nowMs = clock.now();
    const { key, version } = await transaction(database, async (em) => {
      const key = await lockKey(em, keyId);
      const before = ownLimitFields(key);
      em.assign(key, nextLimits(key, { limits: rateLimits, changes }));
      if (key.keyType === KeyType.MANAGEMENT) requireNoLimits(ownLimitFields(key));
      const changed = changedFields(before, ownLimitFields(key));
      if (changed === null) return { key, version: await currentVersion(em) };
      await recordAuditEvent(em, {
        tenantId: key.tenantId,
        type: 'api_key_rate_limits_updated',
        occurredAtMs: nowMs,
        caller,
        asOperator: true,
        target: { type: 'api_key', id: key.id },
        ...changed,
      });
      const change = { kind: 'key_changed', tenantId: key.tenantId, keyId: key.id } as const;
      return { key, version: await appendChanges(em, [change]) };
    });
    await feed.knownEverywhere(version, context);
    return { key: keyMessage(key, nowMs) };
  };

/** Only model calls are limited: limits on a key that cannot make any would promise what nobody enforces. */
function requireNoLimits(limits: ReturnType<typeof ownLimitFields>): void {
  for (const [name, limit] of Object.entries(limits)) {
    if (limit === null) continue;
    throw invalidValue(name, 'a management key has no rate limits, since it makes no model calls');
  }
}
