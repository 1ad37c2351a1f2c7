import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';

/** Records how far an edge has come and lets it go on deciding for a while, or lets it leave. */
export const acknowledgeKeys =
  ({ leases }: Pick<KeysDeps, 'leases'>): KeysRpc<'acknowledgeKeys'> =>
  async ({ edgeId, version, leaseHolder, leaving }, context) => {
    requireService(callerOf(context), 'edge');
    if (!leaving) return leases.acknowledge(edgeId, version, leaseHolder);
    await leases.leave(edgeId);
    return { leaseMs: 0 };
  };
