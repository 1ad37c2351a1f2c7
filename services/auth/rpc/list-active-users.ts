import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { UserEntity } from '../db/user.entity.ts';
import { userMessage } from '../db/user.message.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

const batchDefault = 1_000;

/** A batch of the active users of some organizations, as recipients of mail. */
export const listActiveUsers =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'listActiveUsers'> =>
  async (request, context) => {
    requireService(callerOf(context));
    const { tenantIds, afterUserId } = request;
    const users = await database
      .em()
      .find(
        UserEntity,
        { tenantId: { $in: tenantIds }, isActive: true, ...(afterUserId !== '' && { id: { $gt: afterUserId } }) },
        { orderBy: { id: 'asc' }, limit: request.limit || batchDefault },
      );
    return { users: users.map(userMessage) };
  };
