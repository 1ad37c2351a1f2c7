import { setTimeout as delay } from 'node:timers/promises';
import { tryAdvisoryLock } from '#shared/db/advisory-lock.ts';
import { transaction } from '#shared/db/transaction.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { recordAudit, userActor } from '../audit.ts';
import { PasswordResetEntity } from '../db/password-reset.entity.ts';
import { UserEntity } from '../db/user.entity.ts';
import { findUserByEmail } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { normalEmail } from '../domain/email-address.ts';
import { countedUntil } from '../domain/mail-limits.ts';
import { passwordResetMail } from '../domain/mail-texts.ts';
import { lockOfResets } from '../tokens/mailed-links.ts';
import { linkWithToken, newOneTimeToken } from '../tokens/one-time-token.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'outbox' | 'publicUrl' | 'throttle'>;

const resetLifetimeMs = 3_600_000;

/** An account is sent at most one mail in this time, however often it is requested. */
const mailIntervalMs = 60_000;

/** Every answer takes this long, in milliseconds, so that its time does not reveal whether the account exists. */
const answerMs = 300;

/** Mails a one-time token to an active user's address. The answer is the same for everybody. */
export const forgotPassword =
  (deps: Deps): AuthRpc<'forgotPassword'> =>
  async (request, context) => {
    const caller = callerOf(context);
    await deps.throttle.countAddress(caller.ip);
    const [sent] = await Promise.allSettled([mailToken(), delay(answerMs)]);
    if (sent.status === 'rejected') throw sent.reason;
    return {};

    function mailToken(): Promise<void> {
      const { database, clock, outbox, publicUrl } = deps;
      return transaction(database, async (em) => {
        const email = normalEmail(request.email);
        const user = await findUserByEmail(em, email);
        if (user === null) return;
        // Another request for this account is running, or its address is being changed. Waiting would reveal that the account exists.
        if (!(await tryAdvisoryLock(em, lockOfResets(user.id)))) return;
        // Its address may have been changed meanwhile.
        if ((await em.count(UserEntity, { id: user.id, email, isActive: true })) === 0) return;
        const createdAt = { $gt: new Date(clock.now() - mailIntervalMs), $lte: countedUntil(clock.now()) };
        const justAsked = { userId: user.id, createdAt };
        if ((await em.count(PasswordResetEntity, justAsked)) > 0) return;
        const { token, hash } = newOneTimeToken();
        const expiresAt = new Date(clock.now() + resetLifetimeMs);
        em.create(PasswordResetEntity, {
          tokenHash: hash,
          userId: user.id,
          createdAt: new Date(clock.now()),
          expiresAt,
        });
        await em.flush();
        await outbox.enqueue(em, [
          {
            ...passwordResetMail({
              // The fragment, which browsers send to no server, tells the page whose password it sets, for password managers.
              link: `${linkWithToken(publicUrl, '/reset-password', token)}#email=${encodeURIComponent(user.email)}`,
              expiresAt,
            }),
            dedupeKey: `password-reset ${hash.toString('hex')}`,
            kind: 'password_reset',
            toEmail: user.email,
            toUserId: user.id,
            secret: true,
            expiresAt,
          },
        ]);
        await recordAudit(em, clock, {
          tenantId: user.tenantId,
          type: 'password_reset_requested',
          actor: userActor(user.id, caller),
          target: { type: 'user', id: user.id },
        });
      });
    }
  };
