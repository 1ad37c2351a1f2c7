import { createHash, randomBytes } from 'node:crypto';
import { toBinary } from '@bufbuild/protobuf';
import type { Duration } from '@bufbuild/protobuf/wkt';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { RotateKeyRequestSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { transaction } from '#shared/db/transaction.ts';
import { uuidv7 } from '#shared/ids.ts';
import { keyPreview } from '#shared/key-secret.ts';
import { sessionCaller } from '#shared/rpc/caller.ts';
import { appendChanges, type Change, currentVersion } from '../db/changes.ts';
import { findDigests, removeDigests } from '../db/digests.ts';
import { findIdempotentResult, keepIdempotentResult } from '../db/idempotency.ts';
import type { KeyRow } from '../db/key.entity.ts';
import { lockOwnKey } from '../db/key.repository.ts';
import { lockOwner } from '../db/owners.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { derivedSecret } from '../domain/derived-secret.ts';
import { graceEnd } from '../domain/grace-period.ts';
import { requireNotRevoked } from '../domain/key-lifecycle.ts';
import { addDigest } from './create-key.ts';
import { keyMessage, timestampOrUnset } from './key-message.ts';
import { secretOfEarlierRequest } from './repeated-request.ts';

type Deps = Pick<KeysDeps, 'database' | 'feed' | 'peppers' | 'clock'>;

export const rotateKey =
  ({ database, feed, peppers, clock }: Deps): KeysRpc<'rotateKey'> =>
  async (request, context) => {
    const caller = sessionCaller(context);
    const nowMs = clock.now();
    const { idempotencyKey } = request;
    const requestHash = createHash('sha256').update(toBinary(RotateKeyRequestSchema, request)).digest();

    const rotated = await transaction(database, async (em) => {
      await lockOwner(em, caller);
      if (idempotencyKey !== '') {
        const earlier = await findIdempotentResult(em, caller, idempotencyKey, requestHash, nowMs);
        if (earlier !== null) {
          const { previousSecretExpiresAt: endsAt } = earlier;
          return {
            ...(await secretOfEarlierRequest(em, caller, earlier, peppers)),
            endsAt,
            version: await currentVersion(em),
          };
        }
      }
      const key = await lockOwnKey(em, caller, request.keyId);
      requireNotRevoked(key);
      const previousPreview = key.preview;
      const { endsAt, change } = await retireSecrets(em, key, durationMs(request.gracePeriod), nowMs);

      const pepper = peppers[0]!;
      const salt = randomBytes(32);
      const secret = derivedSecret(salt, pepper);
      key.preview = keyPreview(secret);
      addDigest(em, key, secret, pepper, nowMs);
      if (idempotencyKey !== '') {
        const result = { keyId: key.id, salt, pepperVersion: pepper.version, previousSecretExpiresAt: endsAt };
        await keepIdempotentResult(em, caller, idempotencyKey, requestHash, result, nowMs);
      }
      await recordAuditEvent(em, {
        id: uuidv7(),
        tenantId: key.tenantId,
        type: 'api_key_rotated',
        occurredAtMs: nowMs,
        caller,
        target: { type: 'api_key', id: key.id },
        before: { key_preview: previousPreview },
        after: { key_preview: key.preview, previous_secret_expires_at: endsAt?.toISOString() ?? null },
      });
      return { key, secret, endsAt, version: await appendChanges(em, [change]) };
    });
    await feed.knownEverywhere(rotated.version, context.signal);
    return {
      key: keyMessage(rotated.key, nowMs),
      secret: rotated.secret,
      previousSecretExpiresAt: timestampOrUnset(rotated.endsAt),
    };
  };

/** Lets every secret of the key end with the grace period, or at once; answers when, and what edges must learn. */
async function retireSecrets(
  em: SqlEntityManager,
  key: KeyRow,
  gracePeriodMs: number,
  nowMs: number,
): Promise<{ endsAt: Date | null; change: Change }> {
  const { tenantId, id: keyId } = key;
  const digests = await findDigests(em, key);
  const endsAt = graceEnd(null, gracePeriodMs, nowMs);
  if (endsAt === null) {
    return { endsAt, change: { kind: 'secret_removed', tenantId, keyId, digests: removeDigests(em, digests) } };
  }
  for (const digest of digests) digest.expiresAt = graceEnd(digest.expiresAt, gracePeriodMs, nowMs);
  return { endsAt, change: { kind: 'key_changed', tenantId, keyId } };
}

const durationMs = (duration: Duration | undefined): number =>
  duration === undefined ? 0 : Number(duration.seconds) * 1000 + Math.floor(duration.nanos / 1e6);
