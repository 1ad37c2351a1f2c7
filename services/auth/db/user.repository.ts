import { LockMode, type SqlEntityManager } from '@mikro-orm/postgresql';
import { notFound } from '#shared/errors.ts';
import { UserEntity, type UserRow } from './user.entity.ts';

export const findUserByEmail = (em: SqlEntityManager, email: string): Promise<UserRow | null> =>
  em.findOne(UserEntity, { email });

export const findUser = (em: SqlEntityManager, id: string): Promise<UserRow | null> => em.findOne(UserEntity, { id });

/** The user, locked until the transaction ends. Fails with NOT_FOUND. */
export async function lockUser(em: SqlEntityManager, where: { id: string; tenantId?: string }): Promise<UserRow> {
  const user = await em.findOne(UserEntity, where, { lockMode: LockMode.PESSIMISTIC_WRITE });
  if (user === null) throw notFound('user');
  return user;
}

/** A user of an organization. Fails with NOT_FOUND. */
export async function getUser(em: SqlEntityManager, where: { id: string; tenantId: string }): Promise<UserRow> {
  const user = await em.findOne(UserEntity, where);
  if (user === null) throw notFound('user');
  return user;
}
