import { transaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { userActor } from '../audit.ts';
import { PasswordResetEntity } from '../db/password-reset.entity.ts';
import { lockUser } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { requireStrongPassword } from '../domain/password-rule.ts';
import { setPassword } from '../passwords/set-password.ts';
import { tokenHash } from '../tokens/session-tokens.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'passwords' | 'throttle' | 'feed' | 'keyRefreshes' | 'outbox'>;

/** Sets a password with a mailed token. A conditional UPDATE spends the token, so it works once. */
export const resetPassword =
  (deps: Deps): AuthRpc<'resetPassword'> =>
  async (request, context) => {
    const { database, clock, passwords, feed, throttle } = deps;
    const caller = callerOf(context);
    const hash = tokenHash(request.token);
    const usable = () => ({ tokenHash: hash, usedAt: null, expiresAt: { $gt: new Date(clock.now()) } });
    const reset = await database.em().findOne(PasswordResetEntity, usable());
    if (reset === null) throw invalidCode();
    requireStrongPassword(request.newPassword, 'new_password');
    const passwordHash = await passwords.hash(reset.userId, request.newPassword);

    const { version, email } = await transaction(database, async (em) => {
      const user = await lockUser(em, { id: reset.userId });
      if (!user.isActive) throw invalidCode();
      const usedAt = new Date(clock.now());
      if ((await em.nativeUpdate(PasswordResetEntity, usable(), { usedAt })) !== 1) throw invalidCode();
      // Whoever reads the mail owns the address.
      user.emailVerified = true;
      const change = { passwordHash, type: 'password_reset' as const, actor: userActor(user.id, caller) };
      return { email: user.email, version: await setPassword(em, user, change, deps) };
    });
    await throttle.forgive({ email, ip: caller.ip });
    await feed.knownEverywhere(version);
    return {};
  };

const invalidCode = () =>
  gatewayError(ErrorReason.INVALID_CODE, 'This link is unknown, already used or expired. Ask for a new one.', {
    param: 'token',
  });
