import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { UpdateKeyRequest } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { changedFields } from '#shared/changed-fields.ts';
import { transactionInTurn } from '#shared/db/transaction.ts';
import { currentVersion } from '#shared/leased-feed/versions.ts';
import { type Caller, sessionCaller } from '#shared/rpc/caller.ts';
import { appendChanges } from '../db/changes.ts';
import type { KeyRow } from '../db/key.entity.ts';
import { lockOwnKey } from '../db/key.repository.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { checkIpAllowlist, checkName } from '../domain/constraints.ts';
import { requireFutureExpiry, requireNotRevoked } from '../domain/key-lifecycle.ts';
import { checkScopes, keyTypeName } from '../domain/key-scopes.ts';
import { auditedFields, keyMessage } from './key-message.ts';

/** A change that was already made still waits for the edges: the request may repeat one that was cut off. */
export const updateKey =
  ({ database, feed, clock }: Pick<KeysDeps, 'database' | 'feed' | 'clock'>): KeysRpc<'updateKey'> =>
  async (request, context) => {
    const caller = sessionCaller(context);
    const nowMs = clock.now();
    const { key, version } = await transactionInTurn(database, caller, async (em) => {
      const key = await lockOwnKey(em, caller, request.keyId);
      requireNotRevoked(key);
      const before = auditedFields(key);
      applyMask(key, request, nowMs);
      const changed = changedFields(before, auditedFields(key));
      if (changed === null) return { key, version: await currentVersion(em) };
      await recordUpdate(em, key, changed, caller, nowMs);
      const change = { kind: 'key_changed', tenantId: key.tenantId, keyId: key.id } as const;
      return { key, version: await appendChanges(em, [change]) };
    });
    await feed.knownEverywhere(version, context);
    return { key: keyMessage(key, nowMs) };
  };

/** Changes what the mask names; the request's validation allows no other paths. */
function applyMask(key: KeyRow, request: UpdateKeyRequest, nowMs: number): void {
  for (const path of request.updateMask?.paths ?? []) {
    switch (path) {
      case 'name':
        key.name = checkName(request.name);
        break;
      case 'scopes':
        key.scopes = checkScopes(keyTypeName(key.keyType), request.scopes);
        break;
      case 'expires_at': {
        const expiresAtMs = request.expiresAt === undefined ? null : timestampMs(request.expiresAt);
        requireFutureExpiry(expiresAtMs, nowMs);
        key.expiresAt = expiresAtMs === null ? null : new Date(expiresAtMs);
        break;
      }
      case 'model_allowlist':
        key.modelAllowlist = request.modelAllowlist;
        break;
      case 'ip_allowlist':
        key.ipAllowlist = checkIpAllowlist(request.ipAllowlist);
        break;
      case 'spend_cap_nano_usd':
        key.spendCapNanoUsd = request.spendCapNanoUsd ?? null;
        break;
    }
  }
}

const ordinaryFields = new Set(['name', 'expires_at']);

/** Scopes and constraints have their own events (service.md, Events). */
async function recordUpdate(
  em: SqlEntityManager,
  key: KeyRow,
  { before, after }: NonNullable<ReturnType<typeof changedFields>>,
  caller: Caller,
  nowMs: number,
): Promise<void> {
  const pick = (fields: Readonly<Record<string, unknown>>, ordinary: boolean) =>
    Object.fromEntries(Object.entries(fields).filter(([name]) => ordinaryFields.has(name) === ordinary));
  for (const ordinary of [false, true]) {
    const changes = { before: pick(before, ordinary), after: pick(after, ordinary) };
    if (Object.keys(changes.after).length === 0) continue;
    await recordAuditEvent(em, {
      tenantId: key.tenantId,
      type: ordinary ? 'api_key_updated' : 'api_key_scope_updated',
      occurredAtMs: nowMs,
      caller,
      target: { type: 'api_key', id: key.id },
      ...changes,
    });
  }
}
