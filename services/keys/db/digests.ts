import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { RemovedDigest } from './changes.ts';
import { DigestEntity, type DigestRow } from './digest.entity.ts';
import type { KeyRow } from './key.entity.ts';

/** The digests of all secrets of a key. */
export const findDigests = (em: SqlEntityManager, key: Pick<KeyRow, 'tenantId' | 'id'>): Promise<DigestRow[]> =>
  em.find(DigestEntity, { tenantId: key.tenantId, keyId: key.id });

/** Whether a key still has a secret with this digest, perhaps in its grace period. */
export const isLiveSecret = async (
  em: SqlEntityManager,
  { tenantId, id: keyId }: Pick<KeyRow, 'tenantId' | 'id'>,
  digest: Buffer,
  now: Date,
): Promise<boolean> =>
  (await em.count(DigestEntity, {
    tenantId,
    keyId,
    digest,
    $or: [{ expiresAt: null }, { expiresAt: { $gt: now } }],
  })) === 1;

/** The ids of the keys that had secrets with this preview before they were rotated. */
export const findKeysOfEarlier = async (em: SqlEntityManager, preview: string): Promise<string[]> =>
  (await em.find(DigestEntity, { preview })).map(({ keyId }) => keyId);

/** Removes secrets for good; returns their digests as the feed reports them. */
export function removeDigests(em: SqlEntityManager, digests: readonly DigestRow[]): RemovedDigest[] {
  for (const digest of digests) em.remove(digest);
  return digests.map(({ digest, pepperVersion }) => ({ pepper: pepperVersion, digest: digest.toString('hex') }));
}
