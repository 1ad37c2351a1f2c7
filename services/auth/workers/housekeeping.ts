import { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import { SigningKeyStatus } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { removeInBatches } from '#shared/db/remove-in-batches.ts';
import { transaction } from '#shared/db/transaction.ts';
import { firstIdAt } from '#shared/ids.ts';
import type { Logger } from '#shared/logger.ts';
import { type RecurringWork, startRecurringWork } from '#shared/recurring-work.ts';
import { invitationLifetimeMs } from '../domain/invitation-status.ts';
import { recordChange } from '../feed/changes.ts';

const everyMs = 10 * 60_000;
const dayMs = 86_400_000;

/** How long things that are over can still be shown or looked up, in milliseconds. */
const sessionsKeptMs = 30 * dayMs;
const mailsKeptMs = 90 * dayMs;
const invitationsKeptMs = 90 * dayMs;

/** How many rows one statement removes, within its five seconds. */
const removedAtOnce = 1_000;

type Deps = { database: ServiceDatabase; clock: Clock };

/** Removes what nobody will ask for again, until `signal` aborts. Every statement may run on several replicas at once. */
export async function removeOutdated({ database, clock }: Deps, signal?: AbortSignal): Promise<void> {
  const before = (ageMs: number): Date => new Date(clock.now() - ageMs);
  const now = before(0);
  const over: readonly [from: string, condition: string, value: Date][] = [
    ['sessions', 'expires_at < $1', before(sessionsKeptMs)],
    ['password_resets', 'expires_at < $1', before(dayMs)],
    ['email_changes', 'expires_at < $1', before(dayMs)],
    ['login_throttles', 'last_failure_at < $1', before(dayMs)],
    // The last one stays, since it holds the version. So do all that follow one that still counts: an edge that knows that one reads on
    // from there.
    [
      'changes',
      'version < least((select version from feed), (select min(version) from changes where forget_after >= $1))',
      now,
    ],
    ['signing_keys', 'expires_at < $1', now],
  ];
  for (const [from, condition, value] of over) {
    const text = `delete from ${from} where ctid = any(array(
      select ctid from ${from} where ${condition} limit ${removedAtOnce} for update skip locked))`;
    await removeInBatches(database, { text, values: [value] }, signal);
  }
  await transaction(database, async (em) => {
    const removed = await em.execute<object[]>(
      'delete from signing_keys where status = ? and activated_at < ? returning kid',
      [SigningKeyStatus.NEXT, before(dayMs)],
    );
    // Nothing else tells edges, which accept the key: it has no expiry of its own.
    if (removed.length > 0) await recordChange(em, { kind: 'signing_keys', forgetAfterMs: clock.now() });
  });
  const isOver = `(status <> ${MailStatus.QUEUED} or expires_at < $2)`;
  await removeOld(database, { from: 'mails', madeBefore: before(mailsKeptMs), isOver }, signal);
  // Whatever became of it, an invitation ends with its lifetime.
  const madeBefore = before(invitationsKeptMs + invitationLifetimeMs);
  await removeOld(database, { from: 'invitations', madeBefore }, signal);
}

/**
 * Removes what was made before a moment, by the primary key: ids are UUIDv7. Ids are dated by the machine's clock and rows by `clock`;
 * where they differ (CLOCK), a row stays until it is old by both.
 */
async function removeOld(
  database: ServiceDatabase,
  { from, madeBefore, isOver = 'true' }: { from: 'mails' | 'invitations'; madeBefore: Date; isOver?: string },
  signal: AbortSignal | undefined,
): Promise<void> {
  const statement = {
    text: `delete from ${from} where id = any(array(
      select id from ${from} where id < $1 and created_at < $2 and ${isOver}
      order by id limit ${removedAtOnce} for update skip locked))`,
    values: [firstIdAt(madeBefore.getTime()), madeBefore],
  };
  await removeInBatches(database, statement, signal);
}

/** Runs the housekeeping every ten minutes; several processes doing so do no harm. */
export const startHousekeeping = (deps: Deps & { logger: Logger }): RecurringWork =>
  startRecurringWork({
    name: 'the housekeeping of Auth',
    everyMs,
    round: (signal) => removeOutdated(deps, signal),
    logger: deps.logger,
  });
