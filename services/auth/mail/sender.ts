import { setTimeout as delay } from 'node:timers/promises';
import { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import type { Logger } from '#shared/logger.ts';
import { messageOf } from '#shared/message-of.ts';
import { startRecurringWork } from '#shared/recurring-work.ts';
import { RepeatedFailures } from '#shared/repeated-failures.ts';
import { MailEntity, type MailRow } from '../db/mail.entity.ts';
import { claimDueMails } from '../db/mail.repository.ts';
import { findUser } from '../db/user.repository.ts';
import { isAboutMail, isPermanentRefusal, retryAfterFailure, type SendingError } from '../domain/mail-retry.ts';
import type { MailOutbox } from './outbox.ts';
import { connectionsMax, createSmtp, sendingMsMax } from './smtp.ts';

/** How often the outbox is checked, in milliseconds. */
const pollMs = 500;

/** How long other replicas leave a claimed mail alone, in milliseconds: a minute longer than a sending may take. */
const claimMs = sendingMsMax + 60_000;

/** How long the mail server may take for the last mails once the process is to stop, in milliseconds. */
const lastSendingMs = 3_000;

type Deps = {
  database: ServiceDatabase;
  clock: Clock;
  logger: Logger;
  outbox: MailOutbox;
  smtpUrl: string;
  /** The sender's address, unless SMTP_URL has another one in `?from=`. */
  from: string;
};

/** Sends due mails from the outbox by SMTP until it is closed. A mail server that is away affects nothing else. */
export function startMailSender(deps: Deps, lastMsMax = lastSendingMs): { close(): Promise<void> } {
  const { database, clock, logger } = deps;
  const givingUp = new AbortController();
  const smtp = createSmtp(deps.smtpUrl, deps.from);
  // Thousands of mails may fail for one reason; why each of them did is in the outbox.
  const ofServer = new RepeatedFailures('handing emails to the mail server', logger);
  // Never logged as over: mails that can be decrypted say nothing about those that cannot.
  const decrypting = new RepeatedFailures('decrypting emails', logger, 0);

  /** Sends a few; returns whether there may be more that are worth trying now. */
  const sendDue = async (signal: AbortSignal): Promise<boolean> => {
    // No more are claimed: one that waited for a connection could outlive its claim.
    const claim = { now: new Date(clock.now()), leaseMs: claimMs, limit: connectionsMax };
    const mails = await transaction(database, (em) => claimDueMails(em, claim));
    const failures = await Promise.all(
      mails.map((claimed) =>
        // A failing one does not end the round: otherwise others would be claimed while its neighbour holds a connection.
        handle(claimed, signal).catch((err) => {
          logger.warn(
            { err, mailId: claimed.mail.id },
            'an email could not be processed; it is tried again when its claim ends',
          );
          return null;
        }),
      ),
    );
    // If the mail server is away, thousands would be tried in vain.
    return mails.length === connectionsMax && failures.every((error) => error === null || isAboutMail(error));
  };

  /** Returns why the mail server did not take it; null: it did, or was not asked. */
  const handle = async (
    { mail, failure }: { mail: MailRow; failure: string },
    signal: AbortSignal,
  ): Promise<SendingError | null> => {
    const reason = await reasonToDrop(mail);
    if (reason !== null) {
      const lastError = failure === '' ? reason : `${reason} The last try failed: ${failure}`;
      const { id: mailId, kind, attempts } = mail;
      // This claim counted as one.
      if (attempts > 1) logger.warn({ mailId, kind, attempts: attempts - 1, reason }, 'an email was dropped');
      await settle(mail, { status: MailStatus.DROPPED, lastError });
      return null;
    }
    const body = deps.outbox.open(mail);
    if (body === null) {
      await failed(mail, new Error('its text cannot be decrypted: no SERVICE_SECRET opens it'), decrypting);
      return null;
    }
    try {
      await smtp.send(mail, body, givingUp.signal);
    } catch (error) {
      await failed(mail, error as SendingError, isAboutMail(error as SendingError) ? null : ofServer);
      return error as SendingError;
    }
    ofServer.succeeded();
    await noteSent(mail, signal);
    return null;
  };

  /** Repeated only while the claim lasts: after that another claim would send the mail once more. */
  const noteSent = async (mail: MailRow, signal: AbortSignal): Promise<void> => {
    const end = { status: MailStatus.SENT, sentAt: new Date(clock.now()) };
    for (;;) {
      try {
        return await settle(mail, end);
      } catch (error) {
        if (signal.aborted || clock.now() >= mail.nextAttemptAt!.getTime()) throw error;
        await delay(pollMs);
      }
    }
  };

  /** Why nobody should get a mail any more; null: it is sent. */
  const reasonToDrop = async (mail: MailRow): Promise<string | null> => {
    if (mail.expiresAt != null && mail.expiresAt.getTime() <= clock.now())
      return 'Not sent: it has expired, or its link was used or withdrawn.';
    const user = mail.toUserId == null ? undefined : await findUser(database.em(), mail.toUserId);
    return user === undefined || user?.isActive ? null : 'Not sent: its recipient is no longer active.';
  };

  /** `repeated`: tells of failures that say nothing about this mail alone; null: this one does. */
  const failed = async (mail: MailRow, error: SendingError, repeated: RepeatedFailures | null): Promise<void> => {
    const { id: mailId, kind, attempts, expiresAt } = mail;
    const waitMs = isPermanentRefusal(error) ? null : retryAfterFailure({ attempts, expires: expiresAt != null });
    // Mail servers' filters like to quote the link.
    const lastError = messageOf(error)
      .slice(0, 1_000)
      .replace(/\btoken=.*/s, 'token=…');
    // Mail servers like to quote the address.
    const logged = lastError.replaceAll(mail.toEmail, '<recipient>');
    const fields = { mailId, kind, attempts, lastError: logged };
    if (waitMs === null) logger.warn(fields, 'an email could not be sent and was given up');
    else if (repeated === null) logger.warn({ ...fields, waitMs }, 'an email could not be sent; it will be retried');
    else repeated.failed(logged, 'failed; the emails will be retried');
    if (waitMs === null) await settle(mail, { status: MailStatus.FAILED, lastError });
    else await update(mail, { lastError, nextAttemptAt: new Date(clock.now() + waitMs) });
  };

  /** Ends a mail's life in the outbox. One-time tokens are kept no longer than necessary. */
  const settle = (mail: MailRow, end: Partial<MailRow>): Promise<void> =>
    update(mail, { ...end, nextAttemptAt: null, ...(mail.secret && { sealedBody: null }) });

  const update = async (mail: MailRow, fields: Partial<MailRow>): Promise<void> => {
    await transaction(database, (em) => em.nativeUpdate(MailEntity, { id: mail.id }, fields));
  };

  const sending = startRecurringWork({
    name: 'sending emails',
    everyMs: pollMs,
    async round(signal) {
      while (!signal.aborted && (await sendDue(signal)));
    },
    logger,
  });

  return {
    async close() {
      const late = setTimeout(() => givingUp.abort(), lastMsMax);
      await sending.close();
      clearTimeout(late);
      smtp.close();
    },
  };
}
