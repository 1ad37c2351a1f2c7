import { transactionInTurn } from '#shared/db/transaction.ts';
import { invalidRequest } from '#shared/errors.ts';
import { sessionCaller } from '#shared/rpc/caller.ts';
import { actorOf } from '../audit.ts';
import { hasSignedInFrom } from '../db/session.repository.ts';
import { getUser, lockUser } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { requireStrongPassword } from '../domain/password-rule.ts';
import { setPassword } from '../passwords/set-password.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'passwords' | 'throttle' | 'feed' | 'keyRefreshes' | 'outbox'>;

/** Replaces the caller's password and ends all their sessions. A stolen session does not make it easier to guess the password. */
export const changePassword =
  (deps: Deps): AuthRpc<'changePassword'> =>
  async (request, context) => {
    const { database, passwords, throttle, feed } = deps;
    const caller = sessionCaller(context);
    requireStrongPassword(request.newPassword, 'new_password');
    const where = { id: caller.userId, tenantId: caller.tenantId };
    const user = await getUser(database.em(), where);
    const knownAddress = await hasSignedInFrom(database, { email: user.email, ip: caller.ip });
    const attempt = { email: user.email, ip: caller.ip, knownAddress };
    await throttle.begin(attempt);
    const right = await passwords.verify(user.passwordHash, request.currentPassword).catch(async (error) => {
      await throttle.takeBack(attempt);
      throw error;
    });
    if (!right) throw wrongPassword();
    await throttle.succeeded(attempt);
    const passwordHash = await passwords.hash(request.newPassword);

    const turn = { tenantId: caller.tenantId, signal: context.signal };
    const version = await transactionInTurn(database, turn, async (em) => {
      const locked = await lockUser(em, where);
      if (locked.passwordHash !== user.passwordHash) throw wrongPassword();
      return setPassword(em, locked, { passwordHash, type: 'password_changed', actor: actorOf(caller) }, deps);
    });
    await feed.knownEverywhere(version);
    return {};
  };

/** A 400: the session is valid, and a 401 would make clients refresh it. */
const wrongPassword = () => invalidRequest('current_password', 'The current password is wrong.', 'invalid_credentials');
