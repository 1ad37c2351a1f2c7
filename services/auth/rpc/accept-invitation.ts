import { transaction } from '#shared/db/transaction.ts';
import { invalidRequest } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { hasLengthOfName, shownName } from '#shared/safe-text.ts';
import { roleName } from '#shared/session-token.ts';
import { recordAudit, userActor } from '../audit.ts';
import { acceptPending } from '../db/invitation.repository.ts';
import { getOrganizationRow } from '../db/organization.repository.ts';
import { UserEntity } from '../db/user.entity.ts';
import { userMessage } from '../db/user.message.ts';
import { refuseTakenAddress } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { requireStrongPassword } from '../domain/password-rule.ts';
import { lockInvitedAddress } from '../invitations/invitation-limits.ts';
import { notPending, pendingInvitation } from '../invitations/pending-invitation.ts';
import { makeOrganization } from '../organizations/make-organization.ts';
import { wholeSecondMs } from '../tokens/session-tokens.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'passwords'>;

/** Creates the invited user. The token identifies the person; of any number of callers with the same token exactly one succeeds. */
export const acceptInvitation =
  ({ database, clock, passwords }: Deps): AuthRpc<'acceptInvitation'> =>
  async (request, context) => {
    const caller = callerOf(context);
    const organizationName = shownName(request.organizationName, 'organization_name');
    const named = {
      firstName: shownName(request.firstName, 'first_name'),
      lastName: shownName(request.lastName, 'last_name'),
      phone: shownName(request.phone, 'phone'),
    };
    // Before the password is hashed, so that an invented token costs nothing.
    const invitation = await pendingInvitation(database.em(), request.token, clock.now());
    if (invitation.tenantId == null && !hasLengthOfName(organizationName)) {
      throw invalidRequest(
        'organization_name',
        'This invitation creates an organization: give it a name of 2 to 255 characters.',
      );
    }
    requireStrongPassword(request.password, 'password');
    const passwordHash = await passwords.hash(invitation.email, request.password);

    return transaction(database, async (em) => {
      await lockInvitedAddress(em, invitation.email);
      const now = new Date(clock.now());
      if (!(await acceptPending(em, invitation.id, now))) throw notPending();
      const id = uuidv7();
      const actor = userActor(id, caller);
      const organization =
        invitation.tenantId == null
          ? await makeOrganization(em, organizationName, actor, { clock })
          : await getOrganizationRow(em, invitation.tenantId);
      const user = em.create(UserEntity, {
        id,
        tenantId: organization.id,
        email: invitation.email,
        ...named,
        role: invitation.role,
        // The token was received at the address.
        emailVerified: true,
        passwordHash,
        tokensNotBefore: new Date(wholeSecondMs(clock.now())),
        createdAt: now,
      });
      await em.flush();
      await recordAudit(em, clock, {
        tenantId: organization.id,
        type: 'invitation_accepted',
        actor,
        target: { type: 'invitation', id: invitation.id },
        after: { user_id: id, email: user.email, role: roleName(user.role) },
      });
      return { user: userMessage(user), organizationName: organization.name };
    }).catch((error) => refuseTakenAddress(error, adviceToMove));
  };

/** The invitation is still pending, and its token proves that the account is the reader's own. */
const adviceToMove =
  " Sign in with it, or, to move here from another organization, ask an admin there or the platform's operator to deactivate it, and then accept this invitation again. To keep it, ask for an invitation to another address.";
