import { operatorCaller } from '#shared/rpc/caller.ts';
import { getOrganizationRow } from '../db/organization.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { invitationsOf } from '../invitations/list-invitations.ts';

/** The invitations of any organization, or those that make a new one. */
export const adminListInvitations =
  (deps: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'adminListInvitations'> =>
  async (request, context) => {
    operatorCaller(context);
    if (request.tenantId === '') return invitationsOf(null, request, deps);
    const { id } = await getOrganizationRow(deps.database.em(), request.tenantId);
    return invitationsOf(id, request, deps);
  };
