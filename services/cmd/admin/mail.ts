import { mailStatuses } from '../../../edge/routes/api/admin/mail.ts';
import { type AdminCommand, choice, pageOf, pageOptions, textOption } from './command.ts';
import { timeText } from './time.ts';

export const mailCommands: readonly AdminCommand[] = [
  {
    name: 'mail list',
    usage: `[--kind text] [--status ${mailStatuses.names.join('|')}] [--search address] [--page n] [--limit n]`,
    summary: 'Lists the email outbox, newest first. Without a mail server it shows the texts too, for you to pass on.',
    options: { ...pageOptions, kind: { type: 'string' }, status: { type: 'string' }, search: { type: 'string' } },
    async run({ auth, asOperator }, args) {
      const request = {
        page: pageOf(args),
        kind: textOption(args, 'kind'),
        status: mailStatuses.value(choice(args, 'status', mailStatuses.names)),
        search: textOption(args, 'search'),
      };
      const { mails, page } = await auth.listMail(request, asOperator);
      const output = mails.map(({ mail, status, lastError, createdAt }) => ({
        created_at: timeText(createdAt),
        kind: mail!.kind,
        to: mail!.toEmail,
        status: mailStatuses.name(status),
        last_error: lastError,
        text: mail!.text,
      }));
      return { output, page };
    },
  },
];
