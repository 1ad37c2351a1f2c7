import type { KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import type { PrincipalSchema } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import { timestampOrUnset } from '#shared/db/timestamp.ts';
import type { Role } from '#shared/rpc/caller.ts';
import type { WholeMessage } from '#shared/whole-message.ts';
import { constraintsMessage } from '../domain/constraints.ts';

/** A row of `principalColumns`: a key with one of its digests, its user's and its organization's state, as of a version of the feed. */
export type PrincipalRow = {
  version: bigint;
  digest: Buffer;
  pepper_version: number;
  secret_expires_at: Date | null;
  tenant_id: string;
  id: string;
  user_id: string;
  key_type: KeyType;
  preview: string;
  scopes: string[];
  model_allowlist: string[];
  ip_allowlist: string[];
  spend_cap_nano_usd: bigint | null;
  requests_per_minute: bigint;
  tokens_per_minute: bigint;
  concurrent_requests: bigint;
  expires_at: Date | null;
  role: Role;
  suspended: boolean;
};

const sources: Readonly<Record<Exclude<keyof PrincipalRow, 'version'>, string>> = {
  digest: 'digests.digest',
  pepper_version: 'digests.pepper_version',
  secret_expires_at: 'digests.expires_at',
  tenant_id: 'keys.tenant_id',
  id: 'keys.id',
  user_id: 'keys.user_id',
  key_type: 'keys.key_type',
  preview: 'keys.preview',
  scopes: 'keys.scopes',
  model_allowlist: 'keys.model_allowlist',
  ip_allowlist: 'keys.ip_allowlist',
  spend_cap_nano_usd: 'keys.spend_cap_nano_usd',
  requests_per_minute: 'keys.requests_per_minute',
  tokens_per_minute: 'keys.tokens_per_minute',
  concurrent_requests: 'keys.concurrent_requests',
  expires_at: 'keys.expires_at',
  role: 'owners.role',
  suspended: 'coalesce(tenants.suspended, false)',
};

export const principalColumns = Object.entries(sources)
  .map(([column, source]) => `${source} as ${column}`)
  .join(', ');

/** Keys that can act: neither deleted nor revoked, of an active user. Includes expired ones. */
export const livePrincipals = `
  digests
  join keys on keys.tenant_id = digests.tenant_id and keys.id = digests.key_id
    and keys.deleted_at is null and keys.revoked_at is null
  join owners on owners.tenant_id = keys.tenant_id and owners.user_id = keys.user_id and owners.is_active
  left join tenants on tenants.tenant_id = keys.tenant_id`;

/**
 * Like `livePrincipals`, for the digests in $1 only, one by one through their unique index and that of keys: without statistics for a table
 * that has just grown, the planner would otherwise start with all keys.
 */
export const livePrincipalsOfDigests = `
  (select * from digests where digest = any($1) offset 0) as digests
  cross join lateral (
    select * from keys
    where keys.tenant_id = digests.tenant_id and keys.id = digests.key_id
      and keys.deleted_at is null and keys.revoked_at is null
    limit 1
  ) as keys
  join owners on owners.tenant_id = keys.tenant_id and owners.user_id = keys.user_id and owners.is_active
  left join tenants on tenants.tenant_id = keys.tenant_id`;

/** A principal in the form for edges; it expires with the key or with this secret's grace period, whichever is earlier. */
export function principalMessage(row: PrincipalRow): WholeMessage<typeof PrincipalSchema> {
  const expiresAt = earlier(row.expires_at, row.secret_expires_at);
  return {
    keyId: row.id,
    tenantId: row.tenant_id,
    userId: row.user_id,
    role: row.role,
    keyType: row.key_type,
    scopes: row.scopes,
    constraints: constraintsMessage({
      modelAllowlist: row.model_allowlist,
      ipAllowlist: row.ip_allowlist,
      spendCapNanoUsd: row.spend_cap_nano_usd,
    }),
    expiresAt: timestampOrUnset(expiresAt),
    tenantSuspended: row.suspended,
    rateLimits: {
      requestsPerMinute: Number(row.requests_per_minute),
      tokensPerMinute: Number(row.tokens_per_minute),
      concurrentRequests: Number(row.concurrent_requests),
    },
    version: row.version,
    keyPreview: row.preview,
  };
}

const earlier = (one: Date | null, other: Date | null): Date | null => {
  if (one === null || other === null) return one ?? other;
  return one < other ? one : other;
};
