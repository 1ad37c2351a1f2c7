import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { listKeys } from '../db/key.repository.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { keyMessage } from './key-message.ts';

export const adminListKeys =
  ({ database, clock }: Pick<KeysDeps, 'database' | 'clock'>): KeysRpc<'adminListKeys'> =>
  async (request, context) => {
    operatorCaller(context);
    const page = pageRows(request.page);
    const nowMs = clock.now();
    const [keys, total] = await listKeys(database.em(), request, page, nowMs);
    return { keys: keys.map((key) => keyMessage(key, nowMs)), page: pageInfo(page, total) };
  };
