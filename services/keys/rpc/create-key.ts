import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { type CreateKeyRequest, CreateKeyRequestSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { transactionInTurn } from '#shared/db/transaction.ts';
import { modelNotUsable } from '#shared/errors.ts';
import { onceNamed } from '#shared/idempotency.ts';
import { uuidv7 } from '#shared/ids.ts';
import { keyPreview } from '#shared/key-secret.ts';
import { type Caller, Role, sessionCaller } from '#shared/rpc/caller.ts';
import { requiredName } from '#shared/safe-text.ts';
import { appendChanges, type Change } from '../db/changes.ts';
import { KeyEntity, type KeyRow } from '../db/key.entity.ts';
import { countKeys } from '../db/key.repository.ts';
import { findQuota, lockOwner } from '../db/owners.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { checkIpAllowlist } from '../domain/constraints.ts';
import { requireFutureExpiry } from '../domain/key-lifecycle.ts';
import { effectiveQuota, requireQuota } from '../domain/key-quota.ts';
import { chooseScopes, keyTypeName } from '../domain/key-scopes.ts';
import { addSecret, makeSecret, namedSecret, secretName } from './issued-secret.ts';
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
      // A repeat is the same request, whatever has become of its models.
      request: { ...request, unusableModel: '' },
      requestSchema: CreateKeyRequestSchema,
      nowMs,
    };
    const turn = { tenantId: caller.tenantId, signal: context.signal };
    const { key, secret } = await transactionInTurn(database, turn, async (em) => {
      const owner = await lockOwner(em, caller);
      const changes: Change[] = [];
      const name = await onceNamed(em, call, async () => {
        if (request.unusableModel !== '') throw modelNotUsable(request.unusableModel);
        const draft = draftKey(request, owner.role, nowMs);
        requireQuota(await countKeys(em, caller), effectiveQuota(await findQuota(em, caller.tenantId)));

        const made = makeSecret(peppers);
        const key = em.create(KeyEntity, {
          ...draft,
          id: uuidv7(),
          tenantId: caller.tenantId,
          userId: caller.userId,
          preview: keyPreview(made.secret),
          createdAt: new Date(nowMs),
          rotatedAt: null,
          revokedAt: null,
          deletedAt: null,
          lastUsedAt: null,
        });
        await em.flush();
        await addSecret(em, key, made, nowMs);
        await recordCreation(em, key, caller, nowMs);
        changes.push({ kind: 'key_changed', tenantId: key.tenantId, keyId: key.id });
        return secretName(key, made, null);
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
    name: requiredName(request.name, 'name'),
    keyType: request.keyType === KeyType.UNSPECIFIED ? KeyType.INFERENCE : request.keyType,
    scopes: chooseScopes(type, request.scopes?.scopes, role >= Role.ADMIN),
    modelAllowlist: [...new Set(request.constraints?.modelAllowlist)],
    ipAllowlist: checkIpAllowlist(request.constraints?.ipAllowlist ?? []),
    spendCapNanoUsd: request.constraints?.spendCapNanoUsd ?? null,
    expiresAt: expiresAtMs === null ? null : new Date(expiresAtMs),
  };
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
