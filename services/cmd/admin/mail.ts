import { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import { type AdminCommand, pageOf, pageOptions, textOption } from './command.ts';
import { timeText } from './time.ts';

const statusNames: ReadonlyMap<MailStatus, string> = new Map([
  [MailStatus.QUEUED, 'queued'],
  [MailStatus.SENT, 'sent'],
  [MailStatus.FAILED, 'failed'],
  [MailStatus.DROPPED, 'dropped'],
]);

export const mailCommands: readonly AdminCommand[] = [
  {
    name: 'mail list',
    usage: '[--kind text] [--search address] [--page n] [--limit n]',
    summary: 'Lists the email outbox, newest first. Without a mail server it shows the texts too, for you to pass on.',
    options: { ...pageOptions, kind: { type: 'string' }, search: { type: 'string' } },
    async run({ auth, asOperator }, args) {
      const request = { page: pageOf(args), kind: textOption(args, 'kind'), search: textOption(args, 'search') };
      const { mails, page } = await auth.listMail(request, asOperator);
      const output = mails.map(({ mail, status, lastError, createdAt }) => ({
        created_at: timeText(createdAt),
        kind: mail!.kind,
        to: mail!.toEmail,
        status: statusNames.get(status) ?? '',
        last_error: lastError,
        text: mail!.text,
      }));
      return { output, page };
    },
  },
];
