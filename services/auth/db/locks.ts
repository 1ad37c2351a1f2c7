import type { EntitySchema, QBFilterQuery, SqlEntityManager } from '@mikro-orm/postgresql';

/*
 * Whoever takes several locks takes them in this order, so that nobody waits for somebody who waits for them: turns (an idempotency key's
 * first), an organization, a user, one-time tokens (invitations, resets) and their mails, sessions, the head of an audit chain, the
 * version of the feed. Whatever refers to an organization or a user locks it for the check of that reference at the commit, behind all
 * else: that check gets by a lock of `lockRow`, not by FOR UPDATE.
 */

/** A row, locked until the transaction ends for whoever changes it, but not for those that refer to it; null if there is none. */
export async function lockRow<Row extends object>(
  em: SqlEntityManager,
  entity: EntitySchema<Row>,
  where: QBFilterQuery<Row>,
): Promise<Row | null> {
  const { sql, params } = em.createQueryBuilder(entity).where(where).toQuery();
  const [row] = await em.execute<object[]>(`${sql} for no key update`, [...params]);
  return row === undefined ? null : em.map(entity, row);
}
