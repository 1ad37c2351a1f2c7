import { type Caller, Role, requireRole, sessionCaller } from '#shared/rpc/caller.ts';
import { actorOf } from '../audit.ts';
import { organizationMessage } from '../db/organization.message.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { renameOrganization } from '../organizations/rename-organization.ts';

/** Changes the caller's own organization. */
export const updateOrganization =
  (deps: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'updateOrganization'> =>
  async (request, context) => {
    const caller = sessionCaller(context, Role.ADMIN);
    const judge = (current: Caller) => requireRole(current, Role.ADMIN);
    const by = { caller, judge, actor: actorOf(caller), signal: context.signal };
    return { organization: organizationMessage(await renameOrganization(deps, by, caller.tenantId, request.name)) };
  };
