import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { Caller, Role } from '#shared/rpc/caller.ts';
import type { StoredQuota } from '../domain/key-quota.ts';

/**
 * Locks the caller's row until the end of the transaction, so that a user's keys are made one after the other and the quota cannot be
 * raced. The role comes from the caller until Auth has reported one, which is newer than any token.
 */
export async function lockOwner(em: SqlEntityManager, caller: Caller): Promise<{ role: Role }> {
  const [owner] = await em.execute<{ role: Role; is_active: boolean }[]>(
    `insert into owners (tenant_id, user_id, role) values (?, ?, ?)
     on conflict (tenant_id, user_id) do update
       set role = case when owners.auth_version = 0 then excluded.role else owners.role end
     returning role, is_active`,
    [caller.tenantId, caller.userId, caller.role],
  );
  if (!owner!.is_active) throw gatewayError(ErrorReason.INVALID_TOKEN, 'Your session has ended. Sign in again.');
  return owner!;
}

/** The quota of an organization. */
export async function findQuota(em: SqlEntityManager, tenantId: string): Promise<StoredQuota> {
  const [quota] = await em.execute<{ keys_per_user: string | null }[]>(
    'select keys_per_user from quotas where tenant_id = ?',
    [tenantId],
  );
  if (quota === undefined) return undefined;
  return quota.keys_per_user === null ? null : Number(quota.keys_per_user);
}
