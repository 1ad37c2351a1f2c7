import { transactionInTurn } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { sessionCaller } from '#shared/rpc/caller.ts';
import { actorOf, recordAudit } from '../audit.ts';
import { changeEmail } from '../change-email.ts';
import { EmailChangeEntity } from '../db/email-change.entity.ts';
import { organizationMessage } from '../db/organization.message.ts';
import { getOrganizationRow } from '../db/organization.repository.ts';
import { userMessage } from '../db/user.message.ts';
import { lockUser, refuseTakenAddress } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { lockInvitedAddress } from '../invitations/invitation-limits.ts';
import { withdrawUnfit } from '../invitations/invite.ts';
import { tokenHash } from '../tokens/session-tokens.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'outbox'>;

/**
 * Changes the caller's address with the token that was mailed to the new one. The token alone is not enough: it may have gone to a stranger,
 * by a mistyped address, who could then set a new password by mail.
 */
export const confirmEmailChange =
  (deps: Deps): AuthRpc<'confirmEmailChange'> =>
  async (request, context) => {
    const { database, clock } = deps;
    const caller = sessionCaller(context);
    const usable = () => ({
      tokenHash: tokenHash(request.token),
      userId: caller.userId,
      usedAt: null,
      expiresAt: { $gt: new Date(clock.now()) },
    });
    const asked = await database.em().findOne(EmailChangeEntity, usable());
    if (asked === null) throw invalidCode();

    const turn = { tenantId: caller.tenantId, signal: context.signal };
    return transactionInTurn(database, turn, async (em) => {
      await lockInvitedAddress(em, asked.email);
      const user = await lockUser(em, { id: caller.userId, tenantId: caller.tenantId });
      const usedAt = new Date(clock.now());
      if ((await em.nativeUpdate(EmailChangeEntity, usable(), { usedAt })) !== 1) throw invalidCode();
      const before = { email: user.email };
      const actor = actorOf(caller);
      // Whoever has the token reads the mail.
      await changeEmail(em, user, { email: asked.email, isVerified: true }, deps);
      const withdrawn = await withdrawUnfit(em, user, actor, deps);
      await recordAudit(em, clock, ...withdrawn, {
        tenantId: user.tenantId,
        type: 'email_changed',
        actor,
        target: { type: 'user', id: user.id },
        before,
        after: { email: user.email },
      });
      return {
        user: userMessage(user),
        organization: organizationMessage(await getOrganizationRow(em, user.tenantId)),
      };
    }).catch(refuseTakenAddress);
  };

const invalidCode = () =>
  gatewayError(
    ErrorReason.INVALID_CODE,
    'This link is unknown, already used or expired, or it belongs to another account. Ask for a new one.',
    { param: 'token' },
  );
