import { type Caller, Role, requireRole, sessionCaller } from '#shared/rpc/caller.ts';
import { actorOf } from '../audit.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { withdrawInvitation } from '../invitations/invite.ts';

/** Withdraws a pending invitation of the caller's organization. */
export const deleteInvitation =
  (deps: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'deleteInvitation'> =>
  async ({ invitationId }, context) => {
    const caller = sessionCaller(context, Role.ADMIN);
    const judge = (current: Caller) => requireRole(current, Role.ADMIN);
    const by = { caller, judge, actor: actorOf(caller), signal: context.signal };
    await withdrawInvitation({ id: invitationId, tenantId: caller.tenantId }, by, deps);
    return {};
  };
