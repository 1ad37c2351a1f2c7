import { createHash, randomBytes } from 'node:crypto';
import { toBinary } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { type CreateKeyRequest, CreateKeyRequestSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { transaction } from '#shared/db/transaction.ts';
import type { KeyPepper } from '#shared/env.ts';
import { uuidv7 } from '#shared/ids.ts';
import { keyDigest, keyPreview } from '#shared/key-secret.ts';
import { type Caller, Role, sessionCaller } from '#shared/rpc/caller.ts';
import { DigestEntity } from '../db/digest.entity.ts';
import { findIdempotentResult, keepIdempotentResult } from '../db/idempotency.ts';
import { KeyEntity, type KeyRow } from '../db/key.entity.ts';
import { countKeys } from '../db/key.repository.ts';
import { findQuota, lockOwner } from '../db/owners.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { checkIpAllowlist, checkName } from '../domain/constraints.ts';
import { derivedSecret } from '../domain/derived-secret.ts';
import { requireFutureExpiry } from '../domain/key-lifecycle.ts';
import { effectiveQuota, requireQuota } from '../domain/key-quota.ts';
import { chooseScopes, keyTypeName } from '../domain/key-scopes.ts';
import { auditedFields, keyMessage } from './key-message.ts';
import { secretOfEarlierRequest } from './repeated-request.ts';

type Deps = Pick<KeysDeps, 'database' | 'peppers' | 'clock'>;

export const createKey =
  ({ database, peppers, clock }: Deps): KeysRpc<'createKey'> =>
  async (request, context) => {
    const caller = sessionCaller(context);
    const nowMs = clock.now();
    const { idempotencyKey } = request;
    const requestHash = createHash('sha256').update(toBinary(CreateKeyRequestSchema, request)).digest();

    const { key, secret } = await transaction(database, async (em) => {
      const owner = await lockOwner(em, caller);
      if (idempotencyKey !== '') {
        const earlier = await findIdempotentResult(em, caller, idempotencyKey, requestHash, nowMs);
        if (earlier !== null) return secretOfEarlierRequest(em, caller, earlier, peppers);
      }
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
      addDigest(em, key, secret, pepper, nowMs);
      if (idempotencyKey !== '') {
        const result = { keyId: key.id, salt, pepperVersion: pepper.version, previousSecretExpiresAt: null };
        await keepIdempotentResult(em, caller, idempotencyKey, requestHash, result, nowMs);
      }
      await recordCreation(em, key, caller, nowMs);
      return { key, secret };
    });
    return { key: keyMessage(key, nowMs), secret };
  };

/** The key which a request describes; INVALID_REQUEST names the field that does not hold. */
function draftKey(request: CreateKeyRequest, role: Role, nowMs: number) {
  const type = keyTypeName(request.keyType);
  const expiresAtMs = request.expiresAt === undefined ? null : timestampMs(request.expiresAt);
  requireFutureExpiry(expiresAtMs, nowMs);
  return {
    name: checkName(request.name),
    keyType: request.keyType === KeyType.UNSPECIFIED ? KeyType.INFERENCE : request.keyType,
    scopes: chooseScopes(type, request.scopes?.scopes, role >= Role.ADMIN),
    modelAllowlist: request.constraints?.modelAllowlist ?? [],
    ipAllowlist: checkIpAllowlist(request.constraints?.ipAllowlist ?? []),
    spendCapNanoUsd: request.constraints?.spendCapNanoUsd ?? null,
    expiresAt: expiresAtMs === null ? null : new Date(expiresAtMs),
  };
}

/** Lets a secret open a key; shared with rotation. */
export function addDigest(
  em: SqlEntityManager,
  key: Pick<KeyRow, 'tenantId' | 'id'>,
  secret: string,
  pepper: KeyPepper,
  nowMs: number,
): void {
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
    id: uuidv7(),
    tenantId: key.tenantId,
    type: 'api_key_created',
    occurredAtMs: nowMs,
    caller,
    target: { type: 'api_key', id: key.id },
    after: auditedFields(key),
  });
