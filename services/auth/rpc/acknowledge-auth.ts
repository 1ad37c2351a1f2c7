import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** Takes note of how far an edge has come, and lets it go on deciding for a while. */
export const acknowledgeAuth =
  ({ feed }: Pick<AuthDeps, 'feed'>): AuthRpc<'acknowledgeAuth'> =>
  async (request, context) => {
    requireService(callerOf(context), 'edge');
    if (request.leaving) {
      await feed.leases.drop(request.edgeId);
      return { leaseMs: 0 };
    }
    const leaseMs = await feed.leases.acknowledge(request.edgeId, request.version);
    return { leaseMs: leaseMs ?? 0, rewatch: leaseMs === null };
  };
