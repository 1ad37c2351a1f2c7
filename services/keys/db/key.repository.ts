import { LockMode, type SqlEntityManager } from '@mikro-orm/postgresql';
import { KeyStatus, KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { containing } from '#shared/db/text-search.ts';
import { notFound } from '#shared/errors.ts';
import { KeyEntity, type KeyRow } from './key.entity.ts';

/** The owner of keys: a user. */
export type KeyOwner = { tenantId: string; userId: string };

/** One of the user's own keys; NOT_FOUND when it is deleted or belongs to somebody else. */
export async function findOwnKey(em: SqlEntityManager, owner: KeyOwner, id: string): Promise<KeyRow> {
  const { tenantId, userId } = owner;
  return found(await em.findOne(KeyEntity, { tenantId, id, userId, deletedAt: null }));
}

/** One of the user's own keys, locked until the end of the transaction; NOT_FOUND when it is deleted or belongs to somebody else. */
export async function lockOwnKey(em: SqlEntityManager, owner: KeyOwner, id: string): Promise<KeyRow> {
  return found(await lockOwnKeyIfAny(em, owner, id));
}

/** Like `lockOwnKey`, with null instead of NOT_FOUND. */
export function lockOwnKeyIfAny(em: SqlEntityManager, owner: KeyOwner, id: string): Promise<KeyRow | null> {
  const { tenantId, userId } = owner;
  return em.findOne(KeyEntity, { tenantId, id, userId, deletedAt: null }, locked);
}

/** Anybody's key, for operators, locked until the end of the transaction. */
export async function lockKey(em: SqlEntityManager, id: string): Promise<KeyRow> {
  return found(await em.findOne(KeyEntity, { id, deletedAt: null }, locked));
}

const locked = { lockMode: LockMode.PESSIMISTIC_WRITE } as const;

function found(key: KeyRow | null): KeyRow {
  if (key === null) throw notFound('API key');
  return key;
}

/** How many keys of a user count towards the quota. */
export const countKeys = (em: SqlEntityManager, { tenantId, userId }: KeyOwner): Promise<number> =>
  em.count(KeyEntity, { tenantId, userId, deletedAt: null });

/** What narrows a list of keys; empty texts and unspecified values do not. */
type KeyFilter = {
  tenantId: string;
  userId: string;
  keyType: KeyType;
  /** Ended: expired or revoked. */
  status: KeyStatus | 'ended';
  search: string;
  /** Keys that `search` finds whatever they are called. */
  orKeyIds?: readonly string[];
  keyId?: string;
  expiresBefore?: Date | undefined;
  withSpendCap?: boolean;
};

/** One page of undeleted keys, newest first, and how many there are. */
export function listKeys(
  em: SqlEntityManager,
  filter: KeyFilter,
  page: { offset: number; limit: number },
  nowMs: number,
): Promise<[KeyRow[], number]> {
  const { tenantId, userId, keyType, status, search, orKeyIds = [], keyId = '', expiresBefore, withSpendCap } = filter;
  const where = {
    deletedAt: null,
    ...(tenantId !== '' && { tenantId }),
    ...(userId !== '' && { userId }),
    ...(keyId !== '' && { id: keyId }),
    ...(keyType !== KeyType.UNSPECIFIED && { keyType }),
    ...(expiresBefore !== undefined && { expiresAt: { $lt: expiresBefore } }),
    ...(withSpendCap && { spendCapNanoUsd: { $ne: null } }),
    $and: [inStatus(status, new Date(nowMs)), matching(search, orKeyIds)],
  };
  return em.findAndCount(KeyEntity, where, { orderBy: { id: 'desc' }, ...page });
}

/** Mirrors statusAt of domain/key-lifecycle.ts in SQL. */
function inStatus(status: KeyFilter['status'], now: Date): object {
  switch (status) {
    case KeyStatus.ACTIVE:
      return { revokedAt: null, $or: [{ expiresAt: null }, { expiresAt: { $gt: now } }] };
    case KeyStatus.EXPIRED:
      return { revokedAt: null, expiresAt: { $lte: now } };
    case KeyStatus.REVOKED:
      return { revokedAt: { $ne: null } };
    case 'ended':
      return { $or: [{ revokedAt: { $ne: null } }, { expiresAt: { $lte: now } }] };
    default:
      return {};
  }
}

function matching(search: string, orKeyIds: readonly string[]): object {
  if (search === '') return {};
  const like = { $ilike: containing(search) };
  return { $or: [{ name: like }, { preview: like }, { id: { $in: [...orKeyIds] } }] };
}
