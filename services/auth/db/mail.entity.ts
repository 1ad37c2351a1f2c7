import { defineEntity, type InferEntity, p } from '@mikro-orm/postgresql';
import type { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';

export const MailEntity = defineEntity({
  name: 'Mail',
  tableName: 'mails',
  properties: {
    id: p.uuid().primary(),
    dedupeKey: p.text(),
    messageId: p.text(),
    kind: p.text(),
    toEmail: p.text(),
    toUserId: p.uuid().nullable(),
    subject: p.text(),
    /** Null once a mail with a one-time token is sent, dropped or has failed for good. */
    sealedBody: p.blob().nullable(),
    /** Whether the body holds a one-time token. */
    secret: p.boolean(),
    status: p.smallint().$type<MailStatus>(),
    attempts: p.integer().default(0),
    lastError: p.text().default(''),
    createdAt: p.datetime(),
    sendAfter: p.datetime().nullable(),
    expiresAt: p.datetime().nullable(),
    sentAt: p.datetime().nullable(),
    nextAttemptAt: p.datetime().nullable(),
  },
});

export type MailRow = InferEntity<typeof MailEntity>;
