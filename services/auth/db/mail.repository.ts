import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import type { PageRows } from '#shared/page.ts';
import { MailEntity, type MailRow } from './mail.entity.ts';
import { containing } from './text-search.ts';

/** One page of the outbox, newest first. */
export const pageOfMails = (
  em: SqlEntityManager,
  filter: { status: MailStatus; kind: string; search: string },
  { limit, offset }: PageRows,
): Promise<[MailRow[], number]> =>
  em.findAndCount(
    MailEntity,
    {
      ...(filter.status !== MailStatus.UNSPECIFIED && { status: filter.status }),
      ...(filter.kind !== '' && { kind: filter.kind }),
      ...(filter.search !== '' && { toEmail: { $ilike: containing(filter.search) } }),
    },
    { orderBy: { id: 'desc' }, limit, offset },
  );

/**
 * Takes mails that are due, so that no other replica sends them for `leaseMs`; a sender that dies leaves them to be taken again
 * then.
 */
export async function claimDueMails(
  em: SqlEntityManager,
  { now, leaseMs, limit }: { now: Date; leaseMs: number; limit: number },
): Promise<MailRow[]> {
  const claimed = await em.execute<{ id: string }[]>(
    `update mails set attempts = attempts + 1, next_attempt_at = ?
     where id in (
       select id from mails where status = ? and next_attempt_at <= ?
       order by next_attempt_at limit ${limit} for update skip locked)
     returning id`,
    [new Date(now.getTime() + leaseMs), MailStatus.QUEUED, now],
  );
  return em.find(MailEntity, { id: { $in: claimed.map(({ id }) => id) } }, { orderBy: { id: 'asc' } });
}
