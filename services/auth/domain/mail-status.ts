import { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';

/** Where a mail stands at a moment: one whose moment has passed is never sent, although only a sender would note that. */
export const mailStatus = (mail: { status: MailStatus; expiresAt?: Date | null }, nowMs: number): MailStatus =>
  mail.status === MailStatus.QUEUED && mail.expiresAt != null && mail.expiresAt.getTime() <= nowMs
    ? MailStatus.DROPPED
    : mail.status;
