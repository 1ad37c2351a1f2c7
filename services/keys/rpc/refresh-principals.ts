import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { TenantState, UserState } from '#gen/modelgateway/keys/v1/feed_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { currentVersion } from '#shared/leased-feed/versions.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { appendChanges, type Change } from '../db/changes.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';

/** A state that is not newer changes nothing, but the answer still waits for the edges, since the call may be a repeat. */
export const refreshPrincipals =
  ({ database, feed }: Pick<KeysDeps, 'database' | 'feed'>): KeysRpc<'refreshPrincipals'> =>
  async ({ users, tenants }, context) => {
    requireService(callerOf(context), 'auth');
    const version = await transaction(database, async (em) => {
      const changes = [...(await takeTenants(em, tenants)), ...(await takeUsers(em, users))];
      return changes.length === 0 ? currentVersion(em) : appendChanges(em, changes);
    });
    await feed.knownEverywhere(version, context);
    return { version };
  };

async function takeTenants(em: SqlEntityManager, states: readonly TenantState[]): Promise<Change[]> {
  if (states.length === 0) return [];
  const rows = latest(states, ({ tenantId }) => tenantId).map(({ tenantId, suspended, authVersion }) => ({
    tenant_id: tenantId,
    suspended,
    auth_version: String(authVersion),
  }));
  const changed = await em.execute<{ tenant_id: string }[]>(
    `insert into tenants (tenant_id, suspended, auth_version)
     select tenant_id, suspended, auth_version
     from jsonb_to_recordset(?::jsonb) as state (tenant_id uuid, suspended boolean, auth_version numeric)
     order by tenant_id
     on conflict (tenant_id) do update set suspended = excluded.suspended, auth_version = excluded.auth_version
       where tenants.auth_version < excluded.auth_version
     returning tenant_id`,
    [JSON.stringify(rows)],
  );
  return changed.map(({ tenant_id }) => ({ kind: 'tenant_changed', tenantId: tenant_id }));
}

async function takeUsers(em: SqlEntityManager, states: readonly UserState[]): Promise<Change[]> {
  if (states.length === 0) return [];
  const rows = latest(states, ({ userId }) => userId).map(({ tenantId, userId, role, isActive, authVersion }) => ({
    tenant_id: tenantId,
    user_id: userId,
    role,
    is_active: isActive,
    auth_version: String(authVersion),
  }));
  const changed = await em.execute<{ tenant_id: string; user_id: string }[]>(
    `insert into owners (tenant_id, user_id, role, is_active, auth_version)
     select tenant_id, user_id, role, is_active, auth_version
     from jsonb_to_recordset(?::jsonb)
       as state (tenant_id uuid, user_id uuid, role smallint, is_active boolean, auth_version numeric)
     order by tenant_id, user_id
     on conflict (tenant_id, user_id) do update
       set role = excluded.role, is_active = excluded.is_active, auth_version = excluded.auth_version
       where owners.auth_version < excluded.auth_version
     returning tenant_id, user_id`,
    [JSON.stringify(rows)],
  );
  return changed.map(({ tenant_id, user_id }) => ({ kind: 'owner_changed', tenantId: tenant_id, userId: user_id }));
}

/** Only the newest state of each subject, since one statement may change a row only once. */
function latest<State extends { authVersion: bigint }>(states: readonly State[], idOf: (state: State) => string) {
  const byId = new Map<string, State>();
  for (const state of states) {
    const known = byId.get(idOf(state));
    if (known === undefined || known.authVersion < state.authVersion) byId.set(idOf(state), state);
  }
  return [...byId.values()];
}
