import { Role, sessionCaller } from '#shared/rpc/caller.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { invitationsOf } from '../invitations/list-invitations.ts';

/** The invitations of the caller's organization. */
export const listInvitations =
  (deps: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'listInvitations'> =>
  async (request, context) => {
    const { tenantId } = sessionCaller(context, Role.ADMIN);
    return invitationsOf(tenantId, request, deps);
  };
