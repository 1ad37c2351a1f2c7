import { timestampDate } from '@bufbuild/protobuf/wkt';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';

export const recordKeyUse =
  ({ database }: Pick<KeysDeps, 'database'>): KeysRpc<'recordKeyUse'> =>
  async ({ batchId, uses }, context) => {
    requireService(callerOf(context), 'edge');
    const keyIds = uses.map(({ keyId }) => keyId);
    const tenantIds = uses.map(({ tenantId }) => tenantId);
    await sqlTransaction(database, async (client) => {
      const { rowCount } = await client.query('insert into use_batches (batch_id) values ($1) on conflict do nothing', [
        batchId,
      ]);
      // The batch is a repeat that has been counted.
      if (rowCount === 0) return;
      // In the same order in all batches, so that two that share keys cannot deadlock.
      await client.query(
        `select from keys where (tenant_id, id) in (select * from unnest($1::uuid[], $2::uuid[]))
         order by tenant_id, id for no key update`,
        [tenantIds, keyIds],
      );
      await client.query(
        `update keys set usage_count = usage_count + used.count, last_used_at = greatest(keys.last_used_at, used.at)
         from (
           select tenant_id, id, max(at) as at, sum(count)::bigint as count
           from unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::bigint[]) as used (tenant_id, id, at, count)
           group by tenant_id, id
         ) as used
         where keys.tenant_id = used.tenant_id and keys.id = used.id and keys.deleted_at is null`,
        [tenantIds, keyIds, uses.map(({ lastUsedAt }) => timestampDate(lastUsedAt!)), uses.map(({ count }) => count)],
      );
    });
    return {};
  };
