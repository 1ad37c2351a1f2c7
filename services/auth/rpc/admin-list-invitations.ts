import { operatorCaller } from '#shared/rpc/caller.ts';
import { getOrganizationRow } from '../db/organization.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { invitationsOf } from '../list-invitations.ts';

/** The invitations of any organization. */
export const adminListInvitations =
  (deps: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'adminListInvitations'> =>
  async (request, context) => {
    operatorCaller(context);
    const { id } = await getOrganizationRow(deps.database.em(), request.tenantId);
    return invitationsOf(id, request, deps);
  };
