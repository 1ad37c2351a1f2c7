import { changedFields } from '#shared/changed-fields.ts';
import { transactionInTurn } from '#shared/db/transaction.ts';
import { sessionCaller } from '#shared/rpc/caller.ts';
import { shownName } from '#shared/safe-text.ts';
import { actorOf, recordAudit } from '../audit.ts';
import { organizationMessage } from '../db/organization.message.ts';
import { getOrganizationRow } from '../db/organization.repository.ts';
import { userMessage } from '../db/user.message.ts';
import { lockUser } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** Changes the caller's own profile; an unset field stays as it is. */
export const updateProfile =
  ({ database, clock }: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'updateProfile'> =>
  async (request, context) => {
    const caller = sessionCaller(context);
    const turn = { tenantId: caller.tenantId, signal: context.signal };
    return transactionInTurn(database, turn, async (em) => {
      const user = await lockUser(em, { id: caller.userId, tenantId: caller.tenantId });
      const shown = () => ({
        first_name: user.firstName,
        last_name: user.lastName,
        phone: user.phone || null,
        onboarding_completed: user.onboardingCompleted,
      });
      const before = shown();
      const next = (text: string | undefined, now: string, param: string) =>
        text === undefined ? now : shownName(text, param);
      user.firstName = next(request.firstName, user.firstName, 'first_name');
      user.lastName = next(request.lastName, user.lastName, 'last_name');
      user.phone = next(request.phone, user.phone, 'phone');
      user.onboardingCompleted = request.onboardingCompleted ?? user.onboardingCompleted;
      const changes = changedFields(before, shown());
      if (changes !== null) {
        await em.flush();
        await recordAudit(em, clock, {
          tenantId: user.tenantId,
          type: 'profile_updated',
          actor: actorOf(caller),
          target: { type: 'user', id: user.id },
          ...changes,
        });
      }
      return {
        user: userMessage(user),
        organization: organizationMessage(await getOrganizationRow(em, user.tenantId)),
      };
    });
  };
