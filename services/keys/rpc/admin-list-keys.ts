import { isKeySecret, keyPreview } from '#shared/key-secret.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { findKeysOfEarlier } from '../db/digests.ts';
import { listKeys } from '../db/key.repository.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { keyMessage } from './key-message.ts';

export const adminListKeys =
  ({ database, clock }: Pick<KeysDeps, 'database' | 'clock'>): KeysRpc<'adminListKeys'> =>
  async (request, context) => {
    operatorCaller(context);
    const page = pageRows(request.page);
    const nowMs = clock.now();
    const em = database.em();
    const search = isKeySecret(request.search) ? keyPreview(request.search) : request.search;
    // A key has an earlier secret only while that opens it, and none once it is revoked; it keeps the preview of its last.
    const orKeyIds = search === '' ? [] : await findKeysOfEarlier(em, search);
    const [keys, total] = await listKeys(em, { ...request, search, orKeyIds }, page, nowMs);
    return { keys: keys.map((key) => keyMessage(key, nowMs)), page: pageInfo(page, total) };
  };
