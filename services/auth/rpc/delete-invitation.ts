import { transaction } from '#shared/db/transaction.ts';
import { notFound } from '#shared/errors.ts';
import { Role, sessionCaller } from '#shared/rpc/caller.ts';
import { actorOf } from '../audit.ts';
import { InvitationEntity } from '../db/invitation.entity.ts';
import { withdrawPending } from '../db/invitation.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { recordWithdrawal } from '../invite.ts';

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
      await recordWithdrawal(em, { ...where, email: invitation.email }, actorOf(caller), clock);
    });
    return {};
  };
