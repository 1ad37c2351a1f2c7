import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** Streams the state and then every change. Nobody waits for the edge before it has acknowledged the current version. */
export const watchAuth = ({ feed }: Pick<AuthDeps, 'feed'>): AuthRpc<'watchAuth'> =>
  async function* (_request, context) {
    requireService(callerOf(context), 'edge');
    yield* feed.watch(0n, context.signal);
  };
