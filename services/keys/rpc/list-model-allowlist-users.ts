import { NIL } from 'uuid';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';

const limitDefault = 1_000;

export const listModelAllowlistUsers =
  ({ database, clock }: Pick<KeysDeps, 'database' | 'clock'>): KeysRpc<'listModelAllowlistUsers'> =>
  async ({ model, afterUserId, limit }, context) => {
    requireService(callerOf(context), 'models');
    const { rows } = await database.query<{ user_id: string; tenant_id: string }>({
      name: 'keys-model-allowlist-users',
      text: `select distinct keys.user_id, keys.tenant_id from keys
        join owners on owners.tenant_id = keys.tenant_id and owners.user_id = keys.user_id and owners.is_active
        where keys.model_allowlist @> array[$1::text] and keys.user_id > $2
          and keys.deleted_at is null and keys.revoked_at is null and cardinality(keys.model_allowlist) > 0
          and (keys.expires_at is null or keys.expires_at > $3)
        order by keys.user_id limit $4`,
      values: [model, afterUserId || NIL, new Date(clock.now()), limit || limitDefault],
    });
    return { users: rows.map(({ user_id, tenant_id }) => ({ userId: user_id, tenantId: tenant_id })) };
  };
