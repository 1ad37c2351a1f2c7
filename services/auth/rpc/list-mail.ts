import { createHash } from 'node:crypto';
import { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { type Caller, operatorCaller } from '#shared/rpc/caller.ts';
import { actorOf, recordAudit } from '../audit.ts';
import type { MailRow } from '../db/mail.entity.ts';
import { mailMessage } from '../db/mail.message.ts';
import { pageOfMails } from '../db/mail.repository.ts';
import { UserEntity } from '../db/user.entity.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { mailStatus } from '../domain/mail-status.ts';

type Deps = Pick<AuthDeps, 'database' | 'outbox' | 'clock'>;

/**
 * The mail outbox. The outbox decides which bodies an operator may see; showing a link with which they could become somebody else leaves an
 * audit event in that person's organization.
 */
export const listMail =
  (deps: Deps): AuthRpc<'listMail'> =>
  async (request, context) => {
    const { database, outbox, clock } = deps;
    const caller = operatorCaller(context);
    const rows = pageRows(request.page);
    const now = new Date(clock.now());
    const [mails, total] = await pageOfMails(database.em(), { ...request, now }, rows);
    const shown = mails.map((mail) => {
      const status = mailStatus(mail, now.getTime());
      // Nobody should deliver a link that no longer works.
      const isOver = mail.secret && status === MailStatus.DROPPED;
      return { mail, status, body: isOver ? null : outbox.shownToOperators(mail) };
    });
    const openedLinks = shown.filter(({ mail, body }) => mail.secret && mail.toUserId != null && body !== null);
    await recordOpened(
      deps,
      caller,
      openedLinks.map(({ mail }) => mail),
    );
    return {
      mails: shown.map(({ mail, status, body }) => mailMessage(mail, status, body)),
      page: pageInfo(rows, total),
    };
  };

/** Once per mail and operator. */
async function recordOpened(
  { database, clock }: Pick<Deps, 'database' | 'clock'>,
  caller: Caller,
  mails: readonly MailRow[],
): Promise<void> {
  if (mails.length === 0) return;
  await transaction(database, async (em) => {
    const users = await em.find(UserEntity, { id: { $in: mails.map(({ toUserId }) => toUserId!) } });
    const tenantOf = new Map(users.map(({ id, tenantId }) => [id, tenantId]));
    const events = mails.map(({ id, kind, toUserId }) => ({
      id: eventId(id, caller.userId),
      tenantId: tenantOf.get(toUserId!) ?? null,
      type: 'mail_link_shown' as const,
      actor: actorOf(caller, true),
      target: { type: 'user', id: toUserId! },
      after: { kind },
    }));
    await recordAudit(em, clock, ...events);
  });
}

/** Sorts as the mail, by the time at the beginning of its id. */
const eventId = (mailId: string, operatorId: string): string =>
  mailId.slice(0, -12) + createHash('sha256').update(`${mailId} ${operatorId}`).digest('hex').slice(0, 12);
