import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';

/** Takes note of how far an edge has come and lets it go on deciding for a while, or lets it go. */
export const acknowledgeKeys =
  ({ feed }: Pick<KeysDeps, 'feed'>): KeysRpc<'acknowledgeKeys'> =>
  async ({ edgeId, version, leaseHolder, leaving }, context) => {
    requireService(callerOf(context), 'edge');
    if (!leaving) return feed.leases.acknowledge(edgeId, version, leaseHolder);
    await feed.leases.leave(edgeId);
    return { leaseMs: 0 };
  };
