import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { KeyEntity } from '../db/key.entity.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { statusAt } from '../domain/key-lifecycle.ts';

export const describeKeys =
  ({ database, clock }: Pick<KeysDeps, 'database' | 'clock'>): KeysRpc<'describeKeys'> =>
  async ({ tenantId, keyIds }, context) => {
    requireService(callerOf(context));
    const keys = await database.em().find(KeyEntity, { tenantId, id: { $in: keyIds } });
    const nowMs = clock.now();
    return {
      keys: keys.map((key) => {
        const { id: keyId, userId, name, preview: keyPreview } = key;
        const deleted = key.deletedAt !== null;
        return { keyId, userId, name, keyPreview, deleted, status: deleted ? undefined : statusAt(key, nowMs) };
      }),
    };
  };
