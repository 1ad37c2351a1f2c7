import { pageInfo, pageRows } from '#shared/page.ts';
import { Role, sessionCaller } from '#shared/rpc/caller.ts';
import { userMessage } from '../db/user.message.ts';
import { pageOfUsers } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** The users of the caller's organization. */
export const listMembers =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'listMembers'> =>
  async (request, context) => {
    const { tenantId } = sessionCaller(context, Role.ADMIN);
    const rows = pageRows(request.page);
    const { search, userIds: ids } = request;
    const filter = { tenantId, search, ids: ids.length === 0 ? undefined : ids };
    const [users, total] = await pageOfUsers(database.em(), filter, rows);
    // Who operates the platform is nobody else's business.
    const members = users.map((user) => ({ ...userMessage(user), operator: false }));
    return { members, page: pageInfo(rows, total) };
  };
