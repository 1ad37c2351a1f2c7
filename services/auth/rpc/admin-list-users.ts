import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { userMessage } from '../db/user.message.ts';
import { pageOfUsers } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** The users of all organizations. */
export const adminListUsers =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'adminListUsers'> =>
  async (request, context) => {
    operatorCaller(context);
    const rows = pageRows(request.page);
    const { tenantId, search, userIds: ids } = request;
    const filter = { tenantId: tenantId || undefined, search, ids: ids.length === 0 ? undefined : ids };
    const [users, total] = await pageOfUsers(database.em(), filter, rows);
    return { users: users.map(userMessage), page: pageInfo(rows, total) };
  };
