import { randomBytes } from 'node:crypto';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { type CreateKeyRequest, CreateKeyRequestSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { transactionInTurn } from '#shared/db/transaction.ts';
import type { KeyPepper } from '#shared/env.ts';
import { onceNamed } from '#shared/idempotency.ts';
import { uuidv7 } from '#shared/ids.ts';
import { keyDigest, keyPreview } from '#shared/key-secret.ts';
import { type Caller, Role, sessionCaller } from '#shared/rpc/caller.ts';
import { appendChanges, type Change } from '../db/changes.ts';
import { DigestEntity } from '../db/digest.entity.ts';
import { KeyEntity, type KeyRow } from '../db/key.entity.ts';
import { countKeys } from '../db/key.repository.ts';
import { findQuota, lockOwner } from '../db/owners.ts';
import { notePepper } from '../db/peppers.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { checkIpAllowlist, checkName } from '../domain/constraints.ts';
import { derivedSecret } from '../domain/derived-secret.ts';
import { requireFutureExpiry } from '../domain/key-lifecycle.ts';
import { effectiveQuota, requireQuota } from '../domain/key-quota.ts';
import { chooseScopes, keyTypeName } from '../domain/key-scopes.ts';
import { namedSecret, secretName } from './issued-secret.ts';
import { auditedFields, keyMessage } from './key-message.ts';

type Deps = Pick<KeysDeps, 'database' | 'peppers' | 'clock'>;

/**
 * Edges do not know new keys, and nobody waits for them; but by its version, an edge that served the key notices a restored backup that
 * lacks it.
 */
export const createKey =
  ({ database, peppers, clock }: Deps): KeysRpc<'createKey'> =>
  async (request, context) => {
    const caller = sessionCaller(context);
    const nowMs = clock.now();
    const call = {
      caller,
      key: request.idempotencyKey,
      request,
      requestSchema: CreateKeyRequestSchema,
      nowMs,
    };
    const { key, secret } = await transactionInTurn(database, caller, async (em) => {
      const owner = await lockOwner(em, caller);
      const changes: Change[] = [];
      const name = await onceNamed(em, call, async () => {
        const draft = draftKey(request, owner.role, nowMs);
        requireQuota(await countKeys(em, caller), effectiveQuota(await findQuota(em, caller.tenantId)));

        const pepper = peppers[0]!;
        const salt = randomBytes(32);
        const secret = derivedSecret(salt, pepper);
        const key = em.create(KeyEntity, {
          ...draft,
          id: uuidv7(),
          tenantId: caller.tenantId,
          userId: caller.userId,
          preview: keyPreview(secret),
          createdAt: new Date(nowMs),
          revokedAt: null,
          deletedAt: null,
          lastUsedAt: null,
        });
        await em.flush();
        await addDigest(em, key, secret, pepper, nowMs);
        await recordCreation(em, key, caller, nowMs);
        changes.push({ kind: 'key_changed', tenantId: key.tenantId, keyId: key.id });
        return secretName(key, salt, pepper, null);
      });
      const issued = await namedSecret(em, caller, name, peppers, nowMs);
      if (changes.length > 0) await appendChanges(em, changes);
      return issued;
    });
    return { key: keyMessage(key, nowMs), secret };
  };

/** The key that a request describes; INVALID_REQUEST names the invalid field. */
function draftKey(request: CreateKeyRequest, role: Role, nowMs: number) {
  const type = keyTypeName(request.keyType);
  const expiresAtMs = request.expiresAt === undefined ? null : timestampMs(request.expiresAt);
  requireFutureExpiry(expiresAtMs, nowMs);
  return {
    name: checkName(request.name),
    keyType: request.keyType === KeyType.UNSPECIFIED ? KeyType.INFERENCE : request.keyType,
    scopes: chooseScopes(type, request.scopes?.scopes, role >= Role.ADMIN),
    modelAllowlist: [...new Set(request.constraints?.modelAllowlist)],
    ipAllowlist: checkIpAllowlist(request.constraints?.ipAllowlist ?? []),
    spendCapNanoUsd: request.constraints?.spendCapNanoUsd ?? null,
    expiresAt: expiresAtMs === null ? null : new Date(expiresAtMs),
  };
}

/** Lets a secret open a key; shared with rotation. */
export async function addDigest(
  em: SqlEntityManager,
  key: Pick<KeyRow, 'tenantId' | 'id'>,
  secret: string,
  pepper: KeyPepper,
  nowMs: number,
): Promise<void> {
  await notePepper(em, pepper);
  em.create(DigestEntity, {
    tenantId: key.tenantId,
    keyId: key.id,
    digest: keyDigest(secret, pepper),
    pepperVersion: pepper.version,
    createdAt: new Date(nowMs),
    expiresAt: null,
  });
}

const recordCreation = (em: SqlEntityManager, key: KeyRow, caller: Caller, nowMs: number): Promise<void> =>
  recordAuditEvent(em, {
    tenantId: key.tenantId,
    type: 'api_key_created',
    occurredAtMs: nowMs,
    caller,
    target: { type: 'api_key', id: key.id },
    after: auditedFields(key),
  });
