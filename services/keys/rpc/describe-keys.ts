import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { KeyEntity } from '../db/key.entity.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';

export const describeKeys =
  ({ database }: Pick<KeysDeps, 'database'>): KeysRpc<'describeKeys'> =>
  async ({ tenantId, keyIds }, context) => {
    requireService(callerOf(context));
    const keys = await database.em().find(KeyEntity, { tenantId, id: { $in: keyIds } });
    return {
      keys: keys.map(({ id, userId, name, preview, deletedAt }) => {
        return { keyId: id, userId, name, keyPreview: preview, deleted: deletedAt !== null };
      }),
    };
  };
