import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';

/** Tells an edge of changes. Nobody waits for the edge before it has acknowledged the current version. */
export const watchKeys = ({ feed }: Pick<KeysDeps, 'feed'>): KeysRpc<'watchKeys'> =>
  async function* ({ afterVersion }, context) {
    requireService(callerOf(context), 'edge');
    yield* feed.watch(afterVersion, context.signal);
  };
