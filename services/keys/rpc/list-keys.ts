import { pageInfo, pageRows } from '#shared/page.ts';
import { listKeys as findKeys } from '../db/key.repository.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { sessionCaller } from './caller.ts';
import { keyMessage } from './key-message.ts';

export const listKeys =
  ({ database, clock }: Pick<KeysDeps, 'database' | 'clock'>): KeysRpc<'listKeys'> =>
  async (request, context) => {
    const { tenantId, userId } = sessionCaller(context);
    const { keyType, status, search } = request;
    const page = pageRows(request.page);
    const nowMs = clock.now();
    const [keys, total] = await findKeys(database.em(), { tenantId, userId, keyType, status, search }, page, nowMs);
    return { keys: keys.map((key) => keyMessage(key, nowMs)), page: pageInfo(page, total) };
  };
