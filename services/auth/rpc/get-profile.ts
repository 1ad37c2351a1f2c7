import { callerOf, Role, requireRole } from '#shared/rpc/caller.ts';
import { organizationMessage } from '../db/organization.message.ts';
import { getOrganizationRow } from '../db/organization.repository.ts';
import { userMessage } from '../db/user.message.ts';
import { getUser } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** The caller's own profile, by session or key. */
export const getProfile =
  ({ database }: Pick<AuthDeps, 'database'>): AuthRpc<'getProfile'> =>
  async (_request, context) => {
    const caller = callerOf(context);
    requireRole(caller, Role.MEMBER);
    const { tenantId, userId } = caller;
    const em = database.em();
    return {
      user: userMessage(await getUser(em, { id: userId, tenantId })),
      organization: organizationMessage(await getOrganizationRow(em, tenantId)),
    };
  };
