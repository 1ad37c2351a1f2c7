import type { EntitySchema, QBFilterQuery, SqlEntityManager } from '@mikro-orm/postgresql';

/*
 * The order in which several locks are taken, to prevent deadlocks: advisory locks (an idempotency key's first), an organization, a user, the
 * lock of their resets, one-time tokens (resets, changes of an address, invitations) and their mails, sessions, the head of an audit chain, the
 * version of the feed. Rows that refer to an organization or a user lock it for the foreign key check at the commit, after everything else:
 * that check is compatible with the lock of `lockRow`, but not with FOR UPDATE.
 */

/** A row, locked until the transaction ends against changes but not against references to it; null if there is none. */
export async function lockRow<Row extends object>(
  em: SqlEntityManager,
  entity: EntitySchema<Row>,
  where: QBFilterQuery<Row>,
): Promise<Row | null> {
  const { sql, params } = em.createQueryBuilder(entity).where(where).toQuery();
  const [row] = await em.execute<object[]>(`${sql} for no key update`, [...params]);
  return row === undefined ? null : em.map(entity, row);
}
