import { type Static, Type } from 'typebox';
import { type Key, KeyStatus } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { ownLimitFields } from '#shared/rate-limits.ts';
import { idSchema, isoTime, isoTimeSchema, pageOf, usdOrNull } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';
import { ownRateLimitsSchema } from '../rate-limit-fields.ts';
import { type KeyBudget, keyBudgetSchema } from './key-budgets.ts';
import { keyStatuses, keyTypes } from './key-fields.ts';

/** A list item (service.md, API key, rule 2) with its constraints (decisions.md, Keys). */
export const keySchema = Type.Object(
  {
    id: idSchema,
    name: Type.String(),
    key_type: keyTypes.schema,
    key_preview: Type.String({ description: '`sk-proj-<first 4>...<last 4>`' }),
    scopes: Type.Array(Type.String()),
    created_at: isoTimeSchema,
    rotated_at: orNull({
      ...isoTimeSchema,
      description: 'When the present secret replaced an earlier one; null for a secret as old as the key.',
    }),
    expires_at: orNull(isoTimeSchema),
    last_used_at: orNull(isoTimeSchema),
    usage_count: Type.Integer(),
    is_active: Type.Boolean(),
    model_allowlist: orNull(Type.Array(Type.String())),
    ip_allowlist: orNull(Type.Array(Type.String())),
    spend_cap_usd: orNull(Type.Number({ description: 'What the key may spend per UTC day.' })),
    budget: orNull(keyBudgetSchema),
    revoked_at: orNull({ ...isoTimeSchema, description: 'When an operator revoked the key. This is final.' }),
  },
  { $id: 'ApiKey' },
);
export function keyJson(key: Key, budget: KeyBudget | null): Static<typeof keySchema> {
  const constraints = key.constraints;
  return {
    id: key.id,
    name: key.name,
    key_type: keyTypes.name(key.keyType),
    key_preview: key.keyPreview,
    scopes: key.scopes,
    created_at: isoTime(key.createdAt!),
    rotated_at: isoTime(key.rotatedAt),
    expires_at: isoTime(key.expiresAt),
    last_used_at: isoTime(key.lastUsedAt),
    usage_count: Number(key.usageCount),
    is_active: key.status === KeyStatus.ACTIVE,
    model_allowlist: listOrNull(constraints?.modelAllowlist),
    ip_allowlist: listOrNull(constraints?.ipAllowlist),
    spend_cap_usd: usdOrNull(constraints?.spendCapNanoUsd),
    budget,
    revoked_at: isoTime(key.revokedAt),
  };
}

/** The list also says how many keys the user may have; null: no limit. */
export const keyListSchema = Type.Object({
  ...pageOf(keySchema).properties,
  quota: Type.Object({ used: Type.Integer(), limit: orNull(Type.Integer()) }),
});

/** What is shown only once, in the answer that made the secret (service.md, API key, rule 1), with the constraints. */
export const newKeySchema = Type.Object(
  {
    ...Type.Omit(keySchema, ['key_preview', 'rotated_at', 'last_used_at', 'usage_count', 'is_active', 'revoked_at'])
      .properties,
    key: Type.String({ description: 'The secret, `sk-proj-…`. No other response shows it.' }),
  },
  { $id: 'NewApiKey' },
);
export function newKeyJson(key: Key, secret: string, budget: KeyBudget | null): Static<typeof newKeySchema> {
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

/** A key as operators see it: whose it is, and what was done to it. Never the secret. */
export const adminKeySchema = Type.Object(
  {
    // The budget is for the key's owner to see; operators see the account.
    ...Type.Omit(keySchema, ['budget', 'revoked_at']).properties,
    tenant_id: idSchema,
    user_id: idSchema,
    status: keyStatuses.schema,
    revoked_at: keySchema.properties.revoked_at,
    rate_limits: ownRateLimitsSchema,
  },
  { $id: 'AdminApiKey' },
);
export function adminKeyJson(key: Key): Static<typeof adminKeySchema> {
  const { budget: _, revoked_at, ...item } = keyJson(key, null);
  return {
    ...item,
    tenant_id: key.tenantId,
    user_id: key.userId,
    status: keyStatuses.name(key.status),
    revoked_at,
    rate_limits: ownLimitFields(key.rateLimits!),
  };
}

const listOrNull = (list: string[] | undefined): string[] | null =>
  list === undefined || list.length === 0 ? null : list;
