import {
  AdminCreateInvitationRequestSchema,
  AdminCreateInvitationResponseSchema,
} from '#gen/modelgateway/auth/v1/invitation_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { once } from '#shared/idempotency.ts';
import { operatorCaller, Role, requireOperator } from '#shared/rpc/caller.ts';
import { actorOf } from '../audit.ts';
import { judgeAgain } from '../current-caller.ts';
import { invitationMessage } from '../db/invitation.message.ts';
import { getOrganizationRow } from '../db/organization.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { normalEmail } from '../domain/email-address.ts';
import { beginInvitingAsOperator, refuseMember } from '../invitations/invitation-limits.ts';
import { invite } from '../invitations/invite.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'outbox' | 'publicUrl'>;

/** Invites somebody to any organization, for example to one in which nobody is left who could. */
export const adminCreateInvitation =
  (deps: Deps): AuthRpc<'adminCreateInvitation'> =>
  async (request, context) => {
    const { database, clock } = deps;
    const caller = operatorCaller(context);
    const call = {
      caller,
      key: request.idempotencyKey,
      request,
      requestSchema: AdminCreateInvitationRequestSchema,
      responseSchema: AdminCreateInvitationResponseSchema,
      nowMs: clock.now(),
    };
    return transaction(database, (em) =>
      once(em, call, async () => {
        const organization = await getOrganizationRow(em, request.tenantId);
        const email = normalEmail(request.email);
        await beginInvitingAsOperator(em, { email, param: 'email' }, new Date(clock.now()));
        await refuseMember(em, { tenantId: organization.id, email });
        // Removing or demoting the caller withdraws this invitation as well.
        await judgeAgain(em, { caller, judge: requireOperator });
        const role = request.role === Role.UNSPECIFIED ? Role.MEMBER : request.role;
        const by = { userId: caller.userId, actor: actorOf(caller, true) };
        const invitation = await invite(em, { organization, email, role }, by, deps);
        return { invitation: invitationMessage(invitation, clock.now()) };
      }),
    );
  };
