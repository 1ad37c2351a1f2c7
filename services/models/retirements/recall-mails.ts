import type { CallOptions } from '@connectrpc/connect';
import type pg from 'pg';
import { ReminderStatus } from '#gen/modelgateway/models/v1/reminder_pb.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { asService } from '#shared/rpc/caller.ts';
import { dedupePrefix, readDedupeKey } from './dedupe-key.ts';
import { eachByItself } from './each-by-itself.ts';
import type { ReminderDeps } from './send-due-reminders.ts';

/** In milliseconds; shorter than anybody who moves a date is willing to wait for the row. */
const timeoutMs = 3_000;

/**
 * Takes back mails that wait in Auth's outbox with a date that is no longer true, as they do while the mail server is away. Their users get
 * the point by the new date instead, or nothing if the retirement was withdrawn. Auth forgets a mail only once the result is committed
 * here, so a failure in between repeats the step; meanwhile no point of the retirement is sent.
 */
export async function recallMails(deps: ReminderDeps, signal: AbortSignal): Promise<void> {
  const { rows } = await deps.database.query<{ id: string }>({
    text: 'select id from retirements where recalls_mails',
    values: [],
  });
  await eachByItself(rows, signal, async ({ id }) => {
    let noted: string[] = [];
    do {
      if (signal.aborted) return;
      noted = await recallSome(deps, id, noted);
    } while (noted.length > 0);
  });
}

/** Returns the dedupe keys of the mails taken back; none when all is done. */
async function recallSome(
  { database, auth }: ReminderDeps,
  retirementId: string,
  notedDedupeKeys: string[],
): Promise<string[]> {
  const options: CallOptions = { ...asService('models'), timeoutMs };
  return sqlTransaction(database, async (client) => {
    const { rows } = await client.query<{ withdrawn_at: Date | null }>(
      'select withdrawn_at from retirements where id = $1 and recalls_mails for update',
      [retirementId],
    );
    if (rows[0] === undefined) return [];
    const { dedupeKeys } = await auth.withdrawMail(
      { dedupeKeyPrefix: dedupePrefix(retirementId), notedDedupeKeys },
      options,
    );
    if (dedupeKeys.length === 0) {
      await client.query('update retirements set recalls_mails = false where id = $1', [retirementId]);
      return [];
    }
    const recalled = dedupeKeys.map((key) => readDedupeKey(retirementId, key));
    await (rows[0].withdrawn_at === null ? sendAnew : cancel)(client, retirementId, recalled);
    return dedupeKeys;
  });
}

type Recalled = readonly ReturnType<typeof readDedupeKey>[];

/** The points and users of mails, for `unnest`. */
const columnsOf = (recalled: Recalled) => [recalled.map(({ point }) => point), recalled.map(({ userId }) => userId)];

async function cancel(client: pg.ClientBase, retirementId: string, recalled: Recalled): Promise<void> {
  await client.query(
    `update reminders set status = $4, sent_at = null
     from unnest($2::smallint[], $3::uuid[]) as recalled (point, user_id)
     where retirement_id = $1 and reminders.point = recalled.point and reminders.user_id = recalled.user_id`,
    [retirementId, ...columnsOf(recalled), ReminderStatus.CANCELLED],
  );
}

/** Has the points of mails sent again when they are due by the new date. */
async function sendAnew(client: pg.ClientBase, retirementId: string, recalled: Recalled): Promise<void> {
  const [points, users] = columnsOf(recalled);
  await client.query(
    `delete from reminders using unnest($2::smallint[], $3::uuid[]) as recalled (point, user_id)
     where retirement_id = $1 and reminders.point = recalled.point and reminders.user_id = recalled.user_id`,
    [retirementId, points, users],
  );
  // They were planned when the date was moved; those that have become due since are late, and not past.
  await client.query(
    'update reminder_points set done_at = null where retirement_id = $1 and point = any($2::smallint[])',
    [retirementId, points],
  );
}
