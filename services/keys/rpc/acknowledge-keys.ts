import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { acknowledge } from '../feed/watchers.ts';

export const acknowledgeKeys =
  ({ database }: Pick<KeysDeps, 'database'>): KeysRpc<'acknowledgeKeys'> =>
  ({ edgeId, version }, context) => {
    requireService(callerOf(context), 'edge');
    return acknowledge(database, edgeId, version);
  };
