import {
  CreateInvitationRequestSchema,
  CreateInvitationResponseSchema,
} from '#gen/modelgateway/auth/v1/invitation_pb.ts';
import { transactionInTurn } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { once } from '#shared/idempotency.ts';
import { type Caller, Role, requireRole, sessionCaller } from '#shared/rpc/caller.ts';
import { actorOf } from '../audit.ts';
import { judgeAgain } from '../current-caller.ts';
import { invitationMessage } from '../db/invitation.message.ts';
import { getOrganizationRow } from '../db/organization.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { normalEmail } from '../domain/email-address.ts';
import { mayInvite } from '../domain/member-rules.ts';
import { beginInviting } from '../invitations/invitation-limits.ts';
import { invite } from '../invitations/invite.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'outbox' | 'publicUrl'>;

/**
 * Invites somebody to the caller's organization. It does not reveal whether an address has an account elsewhere: in that case accepting
 * fails.
 */
export const createInvitation =
  (deps: Deps): AuthRpc<'createInvitation'> =>
  async (request, context) => {
    const { database, clock } = deps;
    const caller = sessionCaller(context, Role.ADMIN);
    const role = request.role === Role.UNSPECIFIED ? Role.MEMBER : request.role;
    requireInviter(caller, role);
    const call = {
      caller,
      key: request.idempotencyKey,
      request,
      requestSchema: CreateInvitationRequestSchema,
      responseSchema: CreateInvitationResponseSchema,
      nowMs: clock.now(),
    };
    const turn = { tenantId: caller.tenantId, signal: context.signal };
    return transactionInTurn(database, turn, (em) =>
      once(em, call, async () => {
        const email = normalEmail(request.email);
        await beginInviting(em, { tenantId: caller.tenantId, email }, new Date(clock.now()));
        // Removing the caller withdraws this invitation as well.
        await judgeAgain(em, { caller, judge: (current) => requireInviter(current, role) });
        const organization = await getOrganizationRow(em, caller.tenantId);
        const invitation = await invite(
          em,
          { organization, email, role },
          { userId: caller.userId, actor: actorOf(caller) },
          deps,
        );
        return { invitation: invitationMessage(invitation, clock.now()) };
      }),
    );
  };

function requireInviter(caller: Caller, invited: Role): void {
  requireRole(caller, Role.ADMIN);
  if (!mayInvite(caller.role, invited)) {
    throw gatewayError(ErrorReason.INSUFFICIENT_ROLE, 'Only an owner can invite owners.');
  }
}
