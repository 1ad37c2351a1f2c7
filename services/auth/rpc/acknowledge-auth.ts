import { acknowledge, dropWatcher } from '#shared/leased-feed/leases.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** Records how far an edge has come and lets it go on deciding for a while, or lets it leave. */
export const acknowledgeAuth =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'acknowledgeAuth'> =>
  async ({ edgeId, version, leaving }, context) => {
    requireService(callerOf(context), 'edge');
    if (!leaving) return acknowledge(database, { edgeId, version });
    await dropWatcher(database, edgeId);
    return { leaseMs: 0 };
  };
