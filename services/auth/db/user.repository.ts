import { raw, type SqlEntityManager } from '@mikro-orm/postgresql';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import { isUniqueViolation } from '#shared/db/errors.ts';
import { containing } from '#shared/db/text-search.ts';
import { ErrorReason, gatewayError, notFound } from '#shared/errors.ts';
import { isUuid } from '#shared/ids.ts';
import type { PageRows } from '#shared/page.ts';
import { Role } from '#shared/rpc/caller.ts';
import { lockRow } from './locks.ts';
import { UserEntity, type UserRow } from './user.entity.ts';

/** The active user with an address: at most one, however many were deactivated before. */
export const findUserByEmail = (em: SqlEntityManager, email: string): Promise<UserRow | null> =>
  em.findOne(UserEntity, { email, isActive: true });

/** For a change that activates a user: fails with CONFLICT if another active one has the address. */
export function refuseTakenAddress(error: unknown, advice = ''): never {
  if (!isUniqueViolation(error, 'users_email_unique')) throw error;
  throw gatewayError(ErrorReason.CONFLICT, `An account with this email address already exists.${advice}`);
}

export const findUser = (em: SqlEntityManager, id: string): Promise<UserRow | null> => em.findOne(UserEntity, { id });

/** The user, locked until the transaction ends. Fails with NOT_FOUND. */
export async function lockUser(em: SqlEntityManager, where: { id: string; tenantId?: string }): Promise<UserRow> {
  const user = await lockRow(em, UserEntity, where);
  if (user === null) throw notFound('user');
  return user;
}

/** A user of an organization. Fails with NOT_FOUND. */
export async function getUser(em: SqlEntityManager, where: { id: string; tenantId: string }): Promise<UserRow> {
  const user = await em.findOne(UserEntity, where);
  if (user === null) throw notFound('user');
  return user;
}

/**
 * One page of users in order of creation, of one organization or of all: those whose id is the search text, or whose address or name
 * contains it.
 */
export function pageOfUsers(
  em: SqlEntityManager,
  filter: { tenantId?: string; ids?: string[]; search: string },
  { limit, offset }: PageRows,
): Promise<[UserRow[], number]> {
  const like = { $ilike: containing(filter.search) };
  return em.findAndCount(
    UserEntity,
    {
      ...(filter.tenantId !== undefined && { tenantId: filter.tenantId }),
      ...(filter.ids !== undefined && { id: { $in: filter.ids } }),
      ...(filter.search !== '' && {
        $or: [
          { email: like },
          { [raw(`first_name || ' ' || last_name`)]: like },
          ...(isUuid(filter.search) ? [{ id: filter.search }] : []),
        ],
      }),
    },
    { orderBy: { id: 'asc' }, limit, offset },
  );
}

/** How many active owners an organization has besides one of its users. */
export const countOtherActiveOwners = (em: SqlEntityManager, user: UserRow): Promise<number> =>
  em.count(UserEntity, { tenantId: user.tenantId, role: Role.OWNER, isActive: true, id: { $ne: user.id } });

/** Keeps everybody else from removing an operator until the transaction ends. Call it before taking any other lock. */
export const lockOperators = (em: SqlEntityManager): Promise<void> => takeAdvisoryLock(em, 'operators');

/** Whether this is the last active operator of the platform. */
export const isLastOperator = async (em: SqlEntityManager, { id, operator, isActive }: UserRow): Promise<boolean> =>
  operator && isActive && (await em.count(UserEntity, { operator: true, isActive: true, id: { $ne: id } })) === 0;
