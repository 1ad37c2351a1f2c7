import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { type UpdateKeyRequest, UpdateKeyRequestSchema } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { changedFields } from '#shared/changed-fields.ts';
import { transactionInTurn } from '#shared/db/transaction.ts';
import { currentVersion } from '#shared/leased-feed/versions.ts';
import { type Caller, sessionCaller } from '#shared/rpc/caller.ts';
import { requiredName } from '#shared/safe-text.ts';
import { appendChanges } from '../db/changes.ts';
import type { KeyRow } from '../db/key.entity.ts';
import { lockOwnKey } from '../db/key.repository.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { checkIpAllowlist } from '../domain/constraints.ts';
import { requireFutureExpiry, requireNotRevoked } from '../domain/key-lifecycle.ts';
import { checkScopes, keyTypeName } from '../domain/key-scopes.ts';
import { auditedFields, type ChangeableField, keyMessage } from './key-message.ts';

/** A change that was already made still waits for the edges: the request may repeat one that was cut off. */
export const updateKey =
  ({ database, feed, clock }: Pick<KeysDeps, 'database' | 'feed' | 'clock'>): KeysRpc<'updateKey'> =>
  async (request, context) => {
    const caller = sessionCaller(context);
    const nowMs = clock.now();
    const turn = { tenantId: caller.tenantId, signal: context.signal };
    const { key, version } = await transactionInTurn(database, turn, async (em) => {
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
  const paths = new Set(request.updateMask?.paths);
  for (const { name, localName } of UpdateKeyRequestSchema.fields) {
    if (paths.has(name)) setters[localName as ChangeableField](key, request, nowMs);
  }
}

const setters: Readonly<Record<ChangeableField, (key: KeyRow, request: UpdateKeyRequest, nowMs: number) => void>> = {
  name(key, { name }) {
    key.name = requiredName(name, 'name');
  },
  scopes(key, { scopes }) {
    key.scopes = checkScopes(keyTypeName(key.keyType), scopes);
  },
  expiresAt(key, { expiresAt }, nowMs) {
    const expiresAtMs = expiresAt === undefined ? null : timestampMs(expiresAt);
    requireFutureExpiry(expiresAtMs, nowMs);
    key.expiresAt = expiresAtMs === null ? null : new Date(expiresAtMs);
  },
  modelAllowlist(key, { modelAllowlist }) {
    key.modelAllowlist = [...new Set(modelAllowlist)];
  },
  ipAllowlist(key, { ipAllowlist }) {
    key.ipAllowlist = checkIpAllowlist(ipAllowlist);
  },
  spendCapNanoUsd(key, { spendCapNanoUsd }) {
    key.spendCapNanoUsd = spendCapNanoUsd ?? null;
  },
};

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
