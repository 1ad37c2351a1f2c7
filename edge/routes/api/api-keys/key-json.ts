import { type Key, KeyStatus } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { ownLimitFields } from '#shared/rate-limits.ts';
import { isoTime, usdOrNull } from '../../../http/json.ts';
import type { KeyBudget } from './key-budgets.ts';
import { keyStatuses, keyTypes } from './key-fields.ts';

/** A list item (service.md, API key, rule 2) with its constraints (decisions.md, Keys). */
export function keyJson(key: Key, budget: KeyBudget | null) {
  const constraints = key.constraints;
  return {
    id: key.id,
    name: key.name,
    key_type: keyTypes.name(key.keyType),
    key_preview: key.keyPreview,
    scopes: key.scopes,
    created_at: isoTime(key.createdAt),
    expires_at: isoTime(key.expiresAt),
    last_used_at: isoTime(key.lastUsedAt),
    usage_count: Number(key.usageCount),
    is_active: key.status === KeyStatus.ACTIVE,
    model_allowlist: listOrNull(constraints?.modelAllowlist),
    ip_allowlist: listOrNull(constraints?.ipAllowlist),
    spend_cap_usd: usdOrNull(constraints?.spendCapNanoUsd),
    budget,
  };
}

/** What is shown this once, in the answer that made the secret (service.md, API key, rule 1), with the constraints. */
export function newKeyJson(key: Key, secret: string, budget: KeyBudget | null) {
  const { id, name, key_type, scopes, created_at, expires_at, model_allowlist, ip_allowlist, spend_cap_usd } = keyJson(
    key,
    budget,
  );
  return {
    id,
    name,
    key_type,
    key: secret,
    scopes,
    created_at,
    expires_at,
    model_allowlist,
    ip_allowlist,
    spend_cap_usd,
    budget,
  };
}

/** The same as an operator sees it: whose it is, and what was done to it. Never the secret. */
export function adminKeyJson(key: Key) {
  // The budget is its owner's to see; operators see the account.
  const { budget: _, ...item } = keyJson(key, null);
  return {
    ...item,
    tenant_id: key.tenantId,
    user_id: key.userId,
    status: keyStatuses.name(key.status),
    revoked_at: isoTime(key.revokedAt),
    // Null leaves one to the plan.
    rate_limits: ownLimitFields(key.rateLimits!),
  };
}

const listOrNull = (list: readonly string[] | undefined): readonly string[] | null =>
  list === undefined || list.length === 0 ? null : list;
