import { durationMs } from '@bufbuild/protobuf/wkt';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { RotateKeyRequestSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { timestampOrUnset } from '#shared/db/timestamp.ts';
import { transactionInTurn } from '#shared/db/transaction.ts';
import { onceNamed } from '#shared/idempotency.ts';
import { keyPreview } from '#shared/key-secret.ts';
import { currentVersion } from '#shared/leased-feed/versions.ts';
import { sessionCaller } from '#shared/rpc/caller.ts';
import { appendChanges, type Change } from '../db/changes.ts';
import type { DigestRow } from '../db/digest.entity.ts';
import { findDigests, removeDigests } from '../db/digests.ts';
import type { KeyRow } from '../db/key.entity.ts';
import { lockOwnKey } from '../db/key.repository.ts';
import { lockOwner } from '../db/owners.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { graceEnd, requireRoomForSecret } from '../domain/grace-period.ts';
import { requireNotRevoked } from '../domain/key-lifecycle.ts';
import { addSecret, makeSecret, namedSecret, secretName } from './issued-secret.ts';
import { keyMessage } from './key-message.ts';

type Deps = Pick<KeysDeps, 'database' | 'feed' | 'peppers' | 'clock'>;

export const rotateKey =
  ({ database, feed, peppers, clock }: Deps): KeysRpc<'rotateKey'> =>
  async (request, context) => {
    const caller = sessionCaller(context);
    const nowMs = clock.now();
    const gracePeriodMs = request.gracePeriod === undefined ? 0 : durationMs(request.gracePeriod);
    const call = {
      caller,
      key: request.idempotencyKey,
      request,
      requestSchema: RotateKeyRequestSchema,
      nowMs,
    };
    const turn = { tenantId: caller.tenantId, signal: context.signal };
    const { key, secret, previousEndsAt, version } = await transactionInTurn(database, turn, async (em) => {
      await lockOwner(em, caller);
      const changes: Change[] = [];
      const name = await onceNamed(em, call, async () => {
        const key = await lockOwnKey(em, caller, request.keyId);
        requireNotRevoked(key);
        const previousPreview = key.preview;
        const { endsAt, changes: retired } = await retireSecrets(em, key, gracePeriodMs, nowMs);

        const made = makeSecret(peppers);
        key.preview = keyPreview(made.secret);
        key.rotatedAt = new Date(nowMs);
        await addSecret(em, key, made, nowMs);
        await recordAuditEvent(em, {
          tenantId: key.tenantId,
          type: 'api_key_rotated',
          occurredAtMs: nowMs,
          caller,
          target: { type: 'api_key', id: key.id },
          before: { key_preview: previousPreview },
          after: { key_preview: key.preview, previous_secret_expires_at: endsAt?.toISOString() ?? null },
        });
        changes.push(...retired);
        return secretName(key, made, endsAt);
      });
      const issued = await namedSecret(em, caller, name, peppers, nowMs);
      return { ...issued, version: changes.length === 0 ? await currentVersion(em) : await appendChanges(em, changes) };
    });
    await feed.knownEverywhere(version, context);
    return { key: keyMessage(key, nowMs), secret, previousSecretExpiresAt: timestampOrUnset(previousEndsAt) };
  };

/** Ends every secret of the key after the grace period, or at once; returns when, and what edges must learn. */
async function retireSecrets(
  em: SqlEntityManager,
  key: KeyRow,
  gracePeriodMs: number,
  nowMs: number,
): Promise<{ endsAt: Date | null; changes: Change[] }> {
  const { tenantId, id: keyId } = key;
  const removal = (digests: readonly DigestRow[]): Change => ({
    kind: 'secret_removed',
    tenantId,
    keyId,
    digests: removeDigests(em, digests),
  });
  const digests = await findDigests(em, key);
  // The key may end before the grace period, and with it all its secrets.
  const endsAt = graceEnd(key.expiresAt, gracePeriodMs, nowMs);
  if (endsAt === null) return { endsAt, changes: [removal(digests)] };
  const isOver = ({ expiresAt }: DigestRow): boolean => expiresAt !== null && expiresAt.getTime() <= nowMs;
  const live = digests.filter((digest) => !isOver(digest));
  requireRoomForSecret(live);
  for (const digest of live) {
    digest.preview ??= digest.expiresAt === null ? key.preview : null;
    digest.expiresAt = graceEnd(digest.expiresAt, gracePeriodMs, nowMs);
  }
  const changed: Change = { kind: 'key_changed', tenantId, keyId };
  // Expired secrets are removed, so that changing a key does not cost more with each past rotation.
  const over = digests.filter(isOver);
  return { endsAt, changes: over.length === 0 ? [changed] : [removal(over), changed] };
}
