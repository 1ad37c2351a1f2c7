import { sessionCaller } from '#shared/rpc/caller.ts';
import { findOwnKey } from '../db/key.repository.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { keyMessage } from './key-message.ts';

export const getKey =
  ({ database, clock }: Pick<KeysDeps, 'database' | 'clock'>): KeysRpc<'getKey'> =>
  async ({ keyId }, context) => {
    const key = await findOwnKey(database.em(), sessionCaller(context), keyId);
    return { key: keyMessage(key, clock.now()) };
  };
