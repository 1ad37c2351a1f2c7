import { changedFields } from '#shared/changed-fields.ts';
import { transaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { currentVersion } from '#shared/leased-feed/versions.ts';
import { operatorCaller, requireOperator } from '#shared/rpc/caller.ts';
import { actorOf } from '../audit.ts';
import { changeEmail } from '../change-email.ts';
import { currentCaller } from '../current-caller.ts';
import { userMessage } from '../db/user.message.ts';
import { isLastOperator, lockOperators, lockUser, refuseTakenAddress } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { normalEmail } from '../domain/email-address.ts';
import { announce, recordUserChange } from '../feed/announce.ts';
import { lockInvitedAddress } from '../invitations/invitation-limits.ts';
import { withdrawUnfit } from '../invitations/invite.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'feed' | 'keyRefreshes' | 'outbox'>;

/**
 * Deactivates any user, makes them an operator, or changes their address, of which both addresses are told. The last active operator stays.
 */
export const adminUpdateUser =
  (deps: Deps): AuthRpc<'adminUpdateUser'> =>
  async (request, context) => {
    const { database } = deps;
    const caller = operatorCaller(context);
    const email = request.email === undefined ? undefined : normalEmail(request.email);
    const { user, version } = await transaction(database, async (em) => {
      // Two operators who demote each other at the same moment take turns.
      await lockOperators(em);
      requireOperator(await currentCaller(em, caller));
      if (email !== undefined) await lockInvitedAddress(em, email);
      const found = await lockUser(em, { id: request.userId });
      const before = { is_active: found.isActive, operator: found.operator, email: found.email };
      const after = {
        is_active: request.isActive ?? found.isActive,
        operator: request.operator ?? found.operator,
        email: email ?? found.email,
      };
      if (!(after.is_active && after.operator) && (await isLastOperator(em, found))) {
        throw gatewayError(
          ErrorReason.CONFLICT,
          'This is the last platform operator: make another user an operator first.',
        );
      }
      const changes = changedFields(before, after);
      if (changes === null) return { user: found, version: await currentVersion(em) };
      found.isActive = after.is_active;
      found.operator = after.operator;
      // In one statement: the former address of somebody who is reactivated may have been taken.
      if (after.email !== before.email) await changeEmail(em, found, { email: after.email, isVerified: false }, deps);
      else await em.flush();
      const actor = actorOf(caller, true);
      const withdrawn = await withdrawUnfit(em, found, actor, deps);
      const change = {
        type: 'user_updated' as const,
        actor,
        ...changes,
        endSessions: !after.is_active,
        tellKeys: true,
        withdrawn,
      };
      return { user: found, version: await recordUserChange(em, found, change, deps) };
    }).catch(refuseTakenAddress);
    await announce(version, deps);
    return { user: userMessage(user) };
  };
