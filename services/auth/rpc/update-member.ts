import { changedFields } from '#shared/changed-fields.ts';
import { transactionInTurn } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { currentVersion } from '#shared/leased-feed/versions.ts';
import { Role, requireRole, sessionCaller } from '#shared/rpc/caller.ts';
import { roleName } from '#shared/session-token.ts';
import { actorOf } from '../audit.ts';
import { currentCaller } from '../current-caller.ts';
import { lockOrganization } from '../db/organization.repository.ts';
import { userMessage } from '../db/user.message.ts';
import {
  countOtherActiveOwners,
  isLastOperator,
  lockOperators,
  lockUser,
  refuseTakenAddress,
} from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { losesLastOwner, mayChangeMember } from '../domain/member-rules.ts';
import { announce, recordUserChange } from '../feed/announce.ts';
import { withdrawUnfit } from '../invitations/invite.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'feed' | 'keyRefreshes'>;

/** Changes a member's role, or deactivates them. Once this is answered, no edge goes by the old state. */
export const updateMember =
  (deps: Deps): AuthRpc<'updateMember'> =>
  async (request, context) => {
    const { database } = deps;
    const caller = sessionCaller(context, Role.ADMIN);
    const turn = { tenantId: caller.tenantId, signal: context.signal };
    const { member, version } = await transactionInTurn(database, turn, async (em) => {
      if (request.isActive === false) await lockOperators(em);
      // Two owners who step down at the same moment take turns.
      await lockOrganization(em, caller.tenantId);
      const user = await lockUser(em, { id: request.userId, tenantId: caller.tenantId });
      const current = await currentCaller(em, caller);
      requireRole(current, Role.ADMIN);
      const before = { role: user.role, isActive: user.isActive };
      const after = { role: request.role ?? user.role, isActive: request.isActive ?? user.isActive };
      if (!mayChangeMember(current.role, before, after)) {
        throw gatewayError(
          ErrorReason.INSUFFICIENT_ROLE,
          'Only an owner can make somebody an owner, or change an owner.',
        );
      }
      if (losesLastOwner(before, after, await countOtherActiveOwners(em, user))) {
        throw gatewayError(
          ErrorReason.CONFLICT,
          'This is the last owner of the organization: make another member an owner first.',
        );
      }
      if (!after.isActive && (await isLastOperator(em, user))) {
        // Members are not told who operates the platform.
        throw gatewayError(ErrorReason.CONFLICT, 'This user cannot be deactivated. Ask the operator of the platform.');
      }
      const changes = changedFields(
        { role: roleName(before.role), is_active: before.isActive },
        { role: roleName(after.role), is_active: after.isActive },
      );
      if (changes === null) return { member: user, version: await currentVersion(em) };
      Object.assign(user, after);
      await em.flush();
      const actor = actorOf(caller);
      const withdrawn = await withdrawUnfit(em, user, actor, deps);
      const change = {
        type: 'member_updated' as const,
        actor,
        ...changes,
        endSessions: !after.isActive,
        tellKeys: true,
        withdrawn,
      };
      return { member: user, version: await recordUserChange(em, user, change, deps) };
    }).catch(refuseTakenAddress);
    await announce(version, deps);
    return { member: { ...userMessage(member), operator: false } };
  };
