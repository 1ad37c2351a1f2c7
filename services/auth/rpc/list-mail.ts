import { pageInfo, pageRows } from '#shared/page.ts';
import { callerOf, requireOperator } from '#shared/rpc/caller.ts';
import type { MailRow } from '../db/mail.entity.ts';
import { mailMessage } from '../db/mail.message.ts';
import { pageOfMails } from '../db/mail.repository.ts';
import { read } from '../db/read.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

type Deps = Pick<AuthDeps, 'database' | 'outbox'>;

/** The mail outbox. Which bodies an operator may see is the outbox's to say. */
export const listMail =
  ({ database, outbox }: Deps): AuthRpc<'listMail'> =>
  async (request, context) => {
    requireOperator(callerOf(context));
    const rows = pageRows(request.page);
    const [mails, total] = await read(database, (em) => pageOfMails(em, request, rows));
    const shown = (mail: MailRow) => mailMessage(mail, outbox.shownToOperators(mail));
    return { mails: mails.map(shown), page: pageInfo(rows, total) };
  };
