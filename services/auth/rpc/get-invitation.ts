import { invitationMessage } from '../db/invitation.message.ts';
import { getOrganizationRow } from '../db/organization.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { pendingInvitation } from '../invitations/pending-invitation.ts';

/** What the holder of a token is invited to: no more than the mail told them in which it came. */
export const getInvitation =
  ({ database, clock }: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'getInvitation'> =>
  async ({ token }) => {
    const em = database.em();
    const nowMs = clock.now();
    const invitation = await pendingInvitation(em, token, nowMs);
    const organization = invitation.tenantId == null ? null : await getOrganizationRow(em, invitation.tenantId);
    return { invitation: invitationMessage(invitation, nowMs), organizationName: organization?.name ?? '' };
  };
