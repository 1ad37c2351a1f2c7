import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { leaseMs, renewWatcher } from '../feed/watchers.ts';

export const acknowledgeKeys =
  ({ database }: Pick<KeysDeps, 'database'>): KeysRpc<'acknowledgeKeys'> =>
  async ({ edgeId, version }, context) => {
    requireService(callerOf(context), 'edge');
    const renewed = await renewWatcher(database, edgeId, version);
    return renewed ? { leaseMs, rewatch: false } : { leaseMs: 0, rewatch: true };
  };
