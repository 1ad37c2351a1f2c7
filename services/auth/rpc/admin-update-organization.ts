import { operatorCaller, requireOperator } from '#shared/rpc/caller.ts';
import { actorOf } from '../audit.ts';
import { organizationMessage } from '../db/organization.message.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { renameOrganization } from '../organizations/rename-organization.ts';

/** Changes any organization. */
export const adminUpdateOrganization =
  (deps: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'adminUpdateOrganization'> =>
  async (request, context) => {
    const caller = operatorCaller(context);
    const by = { caller, judge: requireOperator, actor: actorOf(caller, true), signal: context.signal };
    return { organization: organizationMessage(await renameOrganization(deps, by, request.tenantId, request.name)) };
  };
