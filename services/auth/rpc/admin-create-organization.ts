import {
  AdminCreateOrganizationRequestSchema,
  AdminCreateOrganizationResponseSchema,
} from '#gen/modelgateway/auth/v1/organization_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { once } from '#shared/idempotency.ts';
import { operatorCaller, Role, requireOperator } from '#shared/rpc/caller.ts';
import { requiredName } from '#shared/safe-text.ts';
import { actorOf } from '../audit.ts';
import { judgeAgain } from '../current-caller.ts';
import { invitationMessage } from '../db/invitation.message.ts';
import { organizationMessage } from '../db/organization.message.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { normalEmail } from '../domain/email-address.ts';
import { beginInvitingAsOperator } from '../invitations/invitation-limits.ts';
import { invite } from '../invitations/invite.ts';
import { makeOrganization } from '../organizations/make-organization.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'outbox' | 'publicUrl'>;

/**
 * Creates an organization and mails its owner an invitation; without a name, the organization is created when the invitation is accepted.
 */
export const adminCreateOrganization =
  (deps: Deps): AuthRpc<'adminCreateOrganization'> =>
  async (request, context) => {
    const { database, clock } = deps;
    const caller = operatorCaller(context);
    const name = request.name === '' ? '' : requiredName(request.name, 'name');
    const call = {
      caller,
      key: request.idempotencyKey,
      request,
      requestSchema: AdminCreateOrganizationRequestSchema,
      responseSchema: AdminCreateOrganizationResponseSchema,
      nowMs: clock.now(),
    };
    return transaction(database, (em) =>
      once(em, call, async () => {
        const email = normalEmail(request.ownerEmail);
        await beginInvitingAsOperator(em, { email, param: 'owner_email' }, new Date(clock.now()));
        // Removing or demoting the caller withdraws the invitation.
        await judgeAgain(em, { caller, judge: requireOperator });
        const actor = actorOf(caller, true);
        const organization = name === '' ? null : await makeOrganization(em, name, actor, deps);
        const invitation = await invite(
          em,
          { organization, email, role: Role.OWNER },
          { userId: caller.userId, actor },
          deps,
        );
        return {
          organization: organization === null ? undefined : organizationMessage(organization),
          invitation: invitationMessage(invitation, clock.now()),
        };
      }),
    );
  };
