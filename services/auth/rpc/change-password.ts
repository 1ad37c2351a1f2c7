import { transactionInTurn } from '#shared/db/transaction.ts';
import { sessionCaller } from '#shared/rpc/caller.ts';
import { actorOf } from '../audit.ts';
import { lockUser } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { requireStrongPassword } from '../domain/password-rule.ts';
import { userWithPassword, wrongPassword } from '../passwords/current-password.ts';
import { setPassword } from '../passwords/set-password.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'passwords' | 'throttle' | 'feed' | 'keyRefreshes' | 'outbox'>;

/** Replaces the caller's password and ends all their sessions. */
export const changePassword =
  (deps: Deps): AuthRpc<'changePassword'> =>
  async (request, context) => {
    const { database, passwords, feed } = deps;
    const caller = sessionCaller(context);
    requireStrongPassword(request.newPassword, 'new_password');
    const user = await userWithPassword(caller, request.currentPassword, deps);
    const { id, tenantId } = user;
    const passwordHash = await passwords.hash(user.email, request.newPassword);

    const turn = { tenantId, signal: context.signal };
    const version = await transactionInTurn(database, turn, async (em) => {
      const locked = await lockUser(em, { id, tenantId });
      if (locked.passwordHash !== user.passwordHash) throw wrongPassword();
      return setPassword(em, locked, { passwordHash, type: 'password_changed', actor: actorOf(caller) }, deps);
    });
    await feed.knownEverywhere(version);
    return {};
  };
