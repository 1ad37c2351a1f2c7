import { operatorCaller, requireOperator } from '#shared/rpc/caller.ts';
import { actorOf } from '../audit.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { withdrawInvitation } from '../invitations/invite.ts';

/** Withdraws a pending invitation of any organization, or one that makes a new one. */
export const adminDeleteInvitation =
  (deps: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'adminDeleteInvitation'> =>
  async ({ tenantId, invitationId }, context) => {
    const caller = operatorCaller(context);
    const by = { caller, judge: requireOperator, actor: actorOf(caller, true), signal: context.signal };
    await withdrawInvitation({ id: invitationId, tenantId: tenantId || null }, by, deps);
    return {};
  };
