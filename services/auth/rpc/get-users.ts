import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { UserEntity } from '../db/user.entity.ts';
import { userMessage } from '../db/user.message.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** Users of any organization, for services. */
export const getUsers =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'getUsers'> =>
  async (request, context) => {
    requireService(callerOf(context));
    const users = await database.em().find(UserEntity, { id: { $in: request.userIds } });
    return { users: users.map(userMessage) };
  };
