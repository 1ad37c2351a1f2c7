import { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import { SigningKeyStatus } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import type { Logger } from '#shared/logger.ts';
import { type RecurringWork, startRecurringWork } from '#shared/recurring-work.ts';
import { recordChange } from './feed/changes.ts';

const everyMs = 10 * 60_000;
const dayMs = 86_400_000;

/** How long what is over is still shown or looked at, in milliseconds. */
const sessionsKeptMs = 30 * dayMs;
const mailsKeptMs = 90 * dayMs;

/** Removes what nobody will ask for again. Every statement may run on several replicas at once. */
export async function tidyUp({ database, clock }: { database: ServiceDatabase; clock: Clock }): Promise<void> {
  const before = (ageMs: number): Date => new Date(clock.now() - ageMs);
  const now = before(0);
  const statements: readonly [text: string, values: unknown[]][] = [
    ['delete from sessions where expires_at < $1', [before(sessionsKeptMs)]],
    ['delete from password_resets where expires_at < $1', [before(dayMs)]],
    ['delete from login_throttles where last_failure_at < $1', [before(dayMs)]],
    // The last one stays: it is the version. So does whatever is behind one that counts: whoever knows that one reads on from there.
    [
      `delete from changes where version < least(
        (select version from feed), (select min(version) from changes where forget_after >= $1))`,
      [now],
    ],
    ['delete from signing_keys where expires_at < $1', [now]],
    ['delete from mails where status <> $1 and created_at < $2', [MailStatus.QUEUED, before(mailsKeptMs)]],
  ];
  for (const [text, values] of statements) await database.query({ text, values });
  await transaction(database, async (em) => {
    const removed = await em.execute<object[]>(
      'delete from signing_keys where status = ? and activated_at < ? returning kid',
      [SigningKeyStatus.NEXT, before(dayMs)],
    );
    // Nothing else tells edges, which accept it: it has no end of its own.
    if (removed.length > 0) await recordChange(em, { kind: 'signing_keys', forgetAfterMs: clock.now() });
  });
}

/** Tidies up now and then until it is closed. */
export const startHousekeeping = (deps: { database: ServiceDatabase; clock: Clock; logger: Logger }): RecurringWork =>
  startRecurringWork({ name: 'the housekeeping of Auth', everyMs, round: () => tidyUp(deps), logger: deps.logger });
