import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { KeyPepper } from '#shared/env.ts';
import { isKeySecret, keyDigest, keyPreview } from '#shared/key-secret.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { findKeysOfDigests } from '../db/digests.ts';
import { listKeys } from '../db/key.repository.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';
import { keyMessage } from './key-message.ts';

export const adminListKeys =
  ({ database, peppers, clock }: Pick<KeysDeps, 'database' | 'peppers' | 'clock'>): KeysRpc<'adminListKeys'> =>
  async (request, context) => {
    operatorCaller(context);
    const page = pageRows(request.page);
    const nowMs = clock.now();
    const em = database.em();
    const filter = { ...request, ...(await searched(em, request.search, peppers)) };
    const [keys, total] = await listKeys(em, filter, page, nowMs);
    return { keys: keys.map((key) => keyMessage(key, nowMs)), page: pageInfo(page, total) };
  };

/** A key has an earlier secret only while that opens it, and none once it is revoked; it keeps the preview of its last. */
async function searched(em: SqlEntityManager, search: string, peppers: readonly KeyPepper[]) {
  if (!isKeySecret(search)) return { search };
  const digests = peppers.map((pepper) => keyDigest(search, pepper));
  return { search: keyPreview(search), orKeyIds: await findKeysOfDigests(em, digests) };
}
