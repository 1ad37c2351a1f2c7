import type { FilterQuery, SqlEntityManager } from '@mikro-orm/postgresql';
import { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { containing } from '#shared/db/text-search.ts';
import type { Waiting } from '#shared/outbox-metrics.ts';
import type { PageRows } from '#shared/page.ts';
import { MailEntity, type MailRow } from './mail.entity.ts';

/** One page of the outbox, newest first. */
export const pageOfMails = (
  em: SqlEntityManager,
  filter: { status: MailStatus; kind: string; search: string; now: Date },
  { limit, offset }: PageRows,
): Promise<[MailRow[], number]> =>
  em.findAndCount(
    MailEntity,
    {
      $and: [inStatus(filter.status, filter.now)],
      ...(filter.kind !== '' && { kind: filter.kind }),
      ...(filter.search !== '' && { toEmail: { $ilike: containing(filter.search) } }),
    },
    { orderBy: { id: 'desc' }, limit, offset },
  );

/** Those whose `mailStatus` is this; unspecified means all. */
function inStatus(status: MailStatus, now: Date): FilterQuery<MailRow> {
  switch (status) {
    case MailStatus.UNSPECIFIED:
      return {};
    case MailStatus.QUEUED:
      return { status, $or: [{ expiresAt: null }, { expiresAt: { $gt: now } }] };
    case MailStatus.DROPPED:
      return { $or: [{ status }, { status: MailStatus.QUEUED, expiresAt: { $lte: now } }] };
    default:
      return { status };
  }
}

/** Mails that somebody waits for, with a link that expires within the hour. An account is sent at most one of each kind a minute. */
const isAwaited = `kind in ('password_reset', 'email_change')`;

/** The mails that are due and not sent; their waiting counts from when they were handed over, or were to be sent. */
export async function mailsWaiting(database: Pick<ServiceDatabase, 'query'>, now: Date): Promise<Waiting> {
  const { rows } = await database.query<{ count: bigint; age: number }>({
    name: 'mails-waiting',
    text: `select count(*), coalesce(extract(epoch from $1 - min(coalesce(send_after, created_at))), 0)::float8 as age from mails
      where status = ${MailStatus.QUEUED} and next_attempt_at is not null and coalesce(send_after, created_at) <= $1
        and (expires_at is null or expires_at > $1)`,
    values: [now],
  });
  return { count: Number(rows[0]!.count), oldestSeconds: rows[0]!.age };
}

/**
 * Claims mails that are due, so that no other replica sends them for `leaseMs`; if the sender dies, they can be claimed again after that.
 * Mails that people are waiting for come first: thousands of reminders may have been due for hours. `failure` is what the last try said, of
 * which a claimed mail itself knows nothing.
 */
export async function claimDueMails(
  em: SqlEntityManager,
  { now, leaseMs, limit }: { now: Date; leaseMs: number; limit: number },
): Promise<{ mail: MailRow; failure: string }[]> {
  const claimed = await em.execute<{ id: string; failure: string }[]>(
    `with awaited as (
       select id, last_error from mails where status = ? and ${isAwaited} and next_attempt_at <= ?
       order by next_attempt_at limit ${limit} for update skip locked),
     others as (
       select id, last_error from mails where status = ? and not ${isAwaited} and next_attempt_at <= ?
       order by next_attempt_at limit ${limit} for update skip locked)
     update mails set attempts = attempts + 1, next_attempt_at = ?, last_error = ''
     from (
       select * from (select *, 1 as turn from awaited union all select *, 2 from others) as due order by turn limit ${limit}) as due
     where mails.id = due.id returning mails.id, due.last_error as failure`,
    [MailStatus.QUEUED, now, MailStatus.QUEUED, now, new Date(now.getTime() + leaseMs)],
  );
  const failures = new Map(claimed.map(({ id, failure }) => [id, failure]));
  const mails = await em.find(MailEntity, { id: { $in: [...failures.keys()] } }, { orderBy: { id: 'asc' } });
  return mails.map((mail) => ({ mail, failure: failures.get(mail.id)! }));
}

/** Drops queued mails whose link no longer works. One that is being sent may still arrive. */
export async function dropQueued(em: SqlEntityManager, which: FilterQuery<MailRow>, now: Date): Promise<void> {
  await em.nativeUpdate(MailEntity, { $and: [which, { status: MailStatus.QUEUED }] }, { expiresAt: now });
}

/**
 * Takes back queued mails, so that nobody gets them; returns their dedupe keys, at most `limit`, repeatedly until they are confirmed. A
 * mail being sent (claimed, with no failure reported yet) may be on its way: it stays, but is not tried again.
 */
export async function withdrawMails(
  em: SqlEntityManager,
  { prefix, noted, now, limit }: { prefix: string; noted: readonly string[]; now: Date; limit: number },
): Promise<string[]> {
  const inHands = `attempts > 0 and last_error = '' and coalesce(next_attempt_at > ?, false)`;
  // A mail is held by having no next attempt, so that no sender claims it.
  await em.nativeDelete(MailEntity, { dedupeKey: { $in: noted }, status: MailStatus.QUEUED, nextAttemptAt: null });
  // Whoever claims one or reports a failure at the same moment is waited for, and what they wrote decides: hence one statement.
  const rows = await em.execute<{ dedupe_key: string; is_held: boolean }[]>(
    `with found as (
       select id from mails where starts_with(dedupe_key, ?) and status = ? and not (${inHands} and coalesce(expires_at <= ?, false))
       limit ${limit} for update)
     update mails set next_attempt_at = case when ${inHands} then next_attempt_at end,
       expires_at = case when ${inHands} then ? else expires_at end
     from found where mails.id = found.id
     returning dedupe_key, next_attempt_at is null as is_held`,
    [prefix, MailStatus.QUEUED, now, now, now, now, now],
  );
  return rows.flatMap(({ dedupe_key, is_held }) => (is_held ? dedupe_key : []));
}
