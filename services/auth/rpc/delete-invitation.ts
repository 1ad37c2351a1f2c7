import { transaction } from '#shared/db/transaction.ts';
import { notFound } from '#shared/errors.ts';
import { Role, sessionCaller } from '#shared/rpc/caller.ts';
import { actorOf, recordAudit } from '../audit.ts';
import { InvitationEntity } from '../db/invitation.entity.ts';
import { withdrawPending } from '../db/invitation.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** Withdraws a pending invitation; one that is over already stays as it is. */
export const deleteInvitation =
  ({ database, clock }: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'deleteInvitation'> =>
  async (request, context) => {
    const caller = sessionCaller(context, Role.ADMIN);
    const where = { id: request.invitationId, tenantId: caller.tenantId };
    await transaction(database, async (em) => {
      const invitation = await em.findOne(InvitationEntity, where);
      if (invitation === null) throw notFound('invitation');
      if (!(await withdrawPending(em, where, new Date(clock.now())))) return;
      await recordAudit(em, clock, {
        tenantId: caller.tenantId,
        type: 'invitation_withdrawn',
        actor: actorOf(caller),
        target: { type: 'invitation', id: invitation.id },
        before: { email: invitation.email },
      });
    });
    return {};
  };
