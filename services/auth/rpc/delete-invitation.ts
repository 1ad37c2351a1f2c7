import { transaction } from '#shared/db/transaction.ts';
import { notFound } from '#shared/errors.ts';
import { Role, sessionCaller } from '#shared/rpc/caller.ts';
import { actorOf } from '../audit.ts';
import { InvitationEntity } from '../db/invitation.entity.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { withdrawInvitations } from '../invite.ts';

/** Withdraws a pending invitation; one that is over already stays as it is. */
export const deleteInvitation =
  ({ database, clock }: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'deleteInvitation'> =>
  async (request, context) => {
    const caller = sessionCaller(context, Role.ADMIN);
    const where = { id: request.invitationId, tenantId: caller.tenantId };
    await transaction(database, async (em) => {
      if ((await em.findOne(InvitationEntity, where)) === null) throw notFound('invitation');
      await withdrawInvitations(em, where, actorOf(caller), { clock });
    });
    return {};
  };
