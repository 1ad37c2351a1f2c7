import { Type } from 'typebox';
import { type Mail, MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../../../caller.ts';
import { isoTime, paginationJson } from '../../../http/json.ts';
import { noStore } from '../../../http/no-store.ts';
import { pageQuerySchema, type Routes } from '../../routes.ts';

const statuses = {
  queued: MailStatus.QUEUED,
  sent: MailStatus.SENT,
  failed: MailStatus.FAILED,
  dropped: MailStatus.DROPPED,
} as const;
const statusSchema = Type.Union([
  Type.Literal('queued'),
  Type.Literal('sent'),
  Type.Literal('failed'),
  Type.Literal('dropped'),
]);

/** The mail outbox, for operators. Bodies with one-time tokens are shown only where no mail server takes them (decisions.md, Running it). */
export const adminMailRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/admin/mail',
    {
      config: { access: { surface: 'operator' } },
      schema: {
        querystring: Type.Object({
          ...pageQuerySchema,
          status: Type.Optional(statusSchema),
          kind: Type.Optional(Type.String({ maxLength: 100 })),
          search: Type.Optional(Type.String({ maxLength: 255 })),
        }),
      },
    },
    async (request, reply) => {
      const { page, limit, status, kind, search } = request.query;
      const answer = await auth.listMail(
        {
          page: { page, limit },
          status: status === undefined ? MailStatus.UNSPECIFIED : statuses[status],
          kind: kind ?? '',
          search: search ?? '',
        },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return noStore(reply).send({ data: answer.mails.map(mailJson), pagination: paginationJson(answer.page) });
    },
  );
};

const namesByStatus = new Map<MailStatus, string>(Object.entries(statuses).map(([name, status]) => [status, name]));

const mailJson = ({ id, mail, status, attempts, lastError, createdAt, sentAt, nextAttemptAt }: Mail) => ({
  id,
  kind: mail!.kind,
  to: mail!.toEmail,
  subject: mail!.subject,
  text: mail!.text || null,
  status: namesByStatus.get(status) ?? 'queued',
  attempts,
  last_error: lastError || null,
  created_at: isoTime(createdAt),
  sent_at: isoTime(sentAt),
  next_attempt_at: isoTime(nextAttemptAt),
});
