import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import { transactionInTurn } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import { sessionCaller } from '#shared/rpc/caller.ts';
import { actorOf, recordAudit } from '../audit.ts';
import { EmailChangeEntity } from '../db/email-change.entity.ts';
import { latestEmailChangesOf } from '../db/email-change.repository.ts';
import { findUserByEmail, lockUser } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { normalEmail } from '../domain/email-address.ts';
import { emailChangeLifetimeMs, emailChangeWaitMs, hourlyEmailChangesMax } from '../domain/email-change-limits.ts';
import { countedUntil, hourlyMailsMax, hourMs, refuseFlood } from '../domain/mail-limits.ts';
import { confirmEmailMail, emailChangeRequestedMail, emailTakenMail } from '../domain/mail-texts.ts';
import { userWithPassword, wrongPassword } from '../passwords/current-password.ts';
import { voidEmailLinks } from '../tokens/mailed-links.ts';
import { linkWithToken, newOneTimeToken } from '../tokens/one-time-token.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'passwords' | 'throttle' | 'outbox' | 'publicUrl'>;

/**
 * Mails a one-time token to the address that the caller wants to sign in with, and tells the present one, from where the change can still be
 * prevented. The answer and the work are the same when another user has the address; only that user is told, by mail.
 */
export const requestEmailChange =
  (deps: Deps): AuthRpc<'requestEmailChange'> =>
  async (request, context) => {
    const { database, clock, throttle, outbox, publicUrl } = deps;
    const caller = sessionCaller(context);
    const email = normalEmail(request.email);
    const { id, tenantId, passwordHash } = await userWithPassword(caller, request.currentPassword, deps);
    await throttle.countAddress(caller.ip);

    const turn = { tenantId, signal: context.signal };
    await transactionInTurn(database, turn, async (em) => {
      await takeAdvisoryLock(em, `email changes of ${tenantId}`);
      const user = await lockUser(em, { id, tenantId });
      if (user.passwordHash !== passwordHash) throw wrongPassword();
      if (user.email === email) throw invalidRequest('email', 'This is already your email address.');
      const until = countedUntil(clock.now());
      const latest = await em.find(
        EmailChangeEntity,
        { userId: id, createdAt: { $lte: until } },
        { orderBy: { createdAt: 'desc' }, limit: hourlyEmailChangesMax, disableIdentityMap: true },
      );
      const retryAfterMs = emailChangeWaitMs(latest, clock.now());
      if (retryAfterMs > 0) {
        throw gatewayError(
          ErrorReason.RATE_LIMITED,
          `You can ask for another email address once a minute and ${hourlyEmailChangesMax} times an hour. Try again later.`,
          { retryAfterMs },
        );
      }
      // What other organizations send does not count, as for invitations.
      const since = new Date(clock.now() - hourMs);
      const ofAll = await latestEmailChangesOf(em, tenantId, { since, until, limit: hourlyMailsMax });
      refuseFlood(ofAll, email, clock.now(), {
        toAddress: 'Somebody in your organization asked for this address less than a minute ago. Try again later.',
        hourly: `Your organization has asked for ${hourlyMailsMax} other addresses within the last hour. Try again later.`,
      });
      const createdAt = new Date(clock.now());
      await voidEmailLinks(em, id, createdAt);
      const { token, hash } = newOneTimeToken();
      const expiresAt = new Date(createdAt.getTime() + emailChangeLifetimeMs);
      em.create(EmailChangeEntity, { tokenHash: hash, userId: id, email, createdAt, expiresAt });
      await em.flush();
      const taken = await findUserByEmail(em, email);
      // The fragment, which browsers send to no server, tells the page which address it is.
      const link = `${linkWithToken(publicUrl, '/confirm-email', token)}#email=${encodeURIComponent(email)}`;
      const change = hash.toString('hex');
      await outbox.enqueue(em, [
        {
          ...(taken === null ? confirmEmailMail({ from: user.email, link, expiresAt }) : emailTakenMail()),
          dedupeKey: `email-change ${change}`,
          kind: taken === null ? 'email_change' : 'email_taken',
          toEmail: email,
          toUserId: taken === null ? id : taken.id,
          secret: taken === null,
          expiresAt,
        },
        {
          ...emailChangeRequestedMail({ to: email }),
          dedupeKey: `email-change-requested ${change}`,
          kind: 'email_change_requested',
          toEmail: user.email,
          toUserId: id,
          secret: false,
        },
      ]);
      await recordAudit(em, clock, {
        tenantId,
        type: 'email_change_requested',
        actor: actorOf(caller),
        target: { type: 'user', id },
        after: { email },
      });
    });
    return {};
  };
