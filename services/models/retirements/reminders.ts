import type { ServiceDatabase } from '#shared/db/orm.ts';
import { type RecurringWork, startRecurringWork } from '#shared/recurring-work.ts';
import { hasDueReminders } from '../db/reminder.repository.ts';
import { eachByItself } from './each-by-itself.ts';
import { recallMails } from './recall-mails.ts';
import { type ReminderDeps, sendDueReminders } from './send-due-reminders.ts';

const everyMs = 1_000;

/** Tells users of retirements when a point is due, until it is closed. Only one process at a time does the work. */
export const startReminders = (deps: ReminderDeps): RecurringWork =>
  startRecurringWork({
    name: 'sending retirement emails',
    everyMs,
    // They need Auth, Keys and Usage.
    firstAfterMs: everyMs,
    round: (signal) => remind(deps, signal),
    logger: deps.logger,
  });

/** One round: takes back mails that are no longer true, then sends those that are due, of retirements with nothing left to take back. */
export async function remind(deps: ReminderDeps, signal: AbortSignal): Promise<void> {
  if (!(await hasDueReminders(deps.database.pool, new Date(deps.clock.now())))) return;
  await alone(deps.database, () => eachByItself([recallMails, sendDueReminders], signal, (step) => step(deps, signal)));
}

/**
 * Runs `work` unless another process does. Postgres keeps the lock for as long as the connection lives, so a worker that dies is replaced
 * at once. The lock only saves work: if it were lost, no mail would be sent twice.
 */
async function alone(database: Pick<ServiceDatabase, 'pool'>, work: () => Promise<void>): Promise<void> {
  const client = await database.pool.connect();
  let failure: Error | undefined;
  try {
    const { rows } = await client.query<{ mine: boolean }>(
      `select pg_try_advisory_lock(hashtext('models.reminders')) as mine`,
    );
    if (!rows[0]!.mine) return;
    try {
      await work();
    } finally {
      await client.query(`select pg_advisory_unlock(hashtext('models.reminders'))`).catch((error: Error) => {
        failure = error;
      });
    }
  } finally {
    client.release(failure);
  }
}
