import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { type Mail, MailSchema, MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import { timestampOrUnset } from '#shared/db/timestamp.ts';
import type { WholeMessage } from '#shared/whole-message.ts';
import type { MailBody } from '../mail/outbox.ts';
import type { MailRow } from './mail.entity.ts';

/** A mail in an operator's list, with its `mailStatus`; without a body its text is empty. */
export const mailMessage = (row: MailRow, status: MailStatus, body: MailBody | null): Mail =>
  create(MailSchema, {
    id: row.id,
    mail: {
      dedupeKey: row.dedupeKey,
      messageId: row.messageId,
      kind: row.kind,
      toEmail: row.toEmail,
      toUserId: row.toUserId ?? '',
      subject: row.subject,
      text: body?.text ?? '',
      html: body?.html ?? '',
      sendAfter: timestampOrUnset(row.sendAfter),
      expiresAt: timestampOrUnset(row.expiresAt),
    },
    status,
    attempts: row.attempts,
    lastError: row.lastError,
    createdAt: timestampFromDate(row.createdAt),
    sentAt: timestampOrUnset(row.sentAt),
    nextAttemptAt: timestampOrUnset(status === MailStatus.QUEUED ? row.nextAttemptAt : null),
  } satisfies WholeMessage<typeof MailSchema>);
