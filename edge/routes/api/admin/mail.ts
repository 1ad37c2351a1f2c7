import { type Static, Type } from 'typebox';
import { type Mail, MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { idSchema, isoTime, isoTimeSchema, pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';
import { spelling } from '../../../http/spelling.ts';

export const mailStatuses = spelling({
  queued: MailStatus.QUEUED,
  sent: MailStatus.SENT,
  failed: MailStatus.FAILED,
  dropped: MailStatus.DROPPED,
});

/**
 * The mail outbox, for operators. Bodies with one-time tokens are shown only when no mail server is configured (decisions.md, Running it).
 */
export const adminMailRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/admin/mail',
    {
      config: operatorOnly,
      schema: {
        summary: 'List emails',
        description: 'The outbox, newest first.',
        response: { 200: pageOf(mailSchema) },
        querystring: Type.Object({
          ...pageQuerySchema,
          status: Type.Optional(mailStatuses.schema),
          kind: Type.Optional(
            Type.String({ minLength: 1, maxLength: 100, description: 'Such as `model_retirement`.' }),
          ),
          search: Type.Optional(Type.String({ maxLength: 255, description: "Part of the recipient's address." })),
        }),
      },
    },
    async (request) => {
      const { page, limit, status, kind, search } = request.query;
      const answer = await auth.listMail(
        { page: { page, limit }, status: mailStatuses.value(status), kind, search },
        asCaller(request),
      );
      return { data: answer.mails.map(mailJson), pagination: paginationJson(answer.page) };
    },
  );
};

export const mailSchema = Type.Object(
  {
    id: idSchema,
    kind: Type.String(),
    to: Type.String(),
    subject: Type.String(),
    text: orNull(
      Type.String({
        description:
          'Null if it contains a one-time token that no longer works, or any while a mail server is set up, or if it can no longer be read.',
      }),
    ),
    status: mailStatuses.schema,
    attempts: Type.Integer(),
    last_error: orNull(Type.String()),
    created_at: isoTimeSchema,
    sent_at: orNull(isoTimeSchema),
    next_attempt_at: orNull(isoTimeSchema),
  },
  { $id: 'Mail' },
);
const mailJson = ({
  id,
  mail,
  status,
  attempts,
  lastError,
  createdAt,
  sentAt,
  nextAttemptAt,
}: Mail): Static<typeof mailSchema> => ({
  id,
  kind: mail!.kind,
  to: mail!.toEmail,
  subject: mail!.subject,
  text: mail!.text || null,
  status: mailStatuses.name(status),
  attempts,
  last_error: lastError || null,
  created_at: isoTime(createdAt!),
  sent_at: isoTime(sentAt),
  next_attempt_at: isoTime(nextAttemptAt),
});
