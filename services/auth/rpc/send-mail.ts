import { timestampDate } from '@bufbuild/protobuf/wkt';
import type { OutgoingMail } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import type { NewMail } from '../mail/outbox.ts';

/** Puts mails into the outbox, all or none; a mail whose dedupe key already exists is dropped. */
export const sendMail =
  ({ database, outbox }: Pick<AuthDeps, 'database' | 'outbox'>): AuthRpc<'sendMail'> =>
  async (request, context) => {
    requireService(callerOf(context));
    const accepted = await transaction(database, (em) => outbox.enqueue(em, request.mails.map(newMail)));
    return { accepted, duplicates: request.mails.length - accepted };
  };

const newMail = (mail: OutgoingMail): NewMail => ({
  dedupeKey: mail.dedupeKey,
  messageId: mail.messageId,
  kind: mail.kind,
  toEmail: mail.toEmail,
  toUserId: mail.toUserId || undefined,
  subject: mail.subject,
  text: mail.text,
  html: mail.html,
  secret: false,
  sendAfter: mail.sendAfter === undefined ? undefined : timestampDate(mail.sendAfter),
  expiresAt: mail.expiresAt === undefined ? undefined : timestampDate(mail.expiresAt),
});
