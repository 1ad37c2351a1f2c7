import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { principalMessage } from '../db/principals.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';

export const authenticate =
  ({ digestLookUp }: Pick<KeysDeps, 'digestLookUp'>): KeysRpc<'authenticate'> =>
  async ({ digests }, context) => {
    requireService(callerOf(context), 'edge');
    const { row, version } = await digestLookUp(digests);
    return { principal: row === null ? undefined : principalMessage(row), version };
  };
