import type { ServiceDatabase } from '#shared/db/orm.ts';
import { recallMails } from '../retirements/recall-mails.ts';
import { type ReminderDeps, sendDueReminders } from '../retirements/send-due-reminders.ts';

export type Reminders = {
  /** Looks at once whether something is to be done, rather than with the next round. */
  wake(): void;
  close(): Promise<void>;
};

const everyMs = 1_000;

/** Tells users of retirements, at the points and only then, until it is closed. One process at a time does the work. */
export function startReminders(deps: ReminderDeps): Reminders {
  const closing = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | null = null;
  let again = false;

  const round = async (): Promise<void> => {
    do {
      again = false;
      await remind(deps, closing.signal).catch((err) => {
        if (!closing.signal.aborted) deps.logger.warn({ err }, 'reminders of retirements could not be sent; they wait');
      });
    } while (again && !closing.signal.aborted);
  };
  const run = (): void => {
    clearTimeout(timer);
    running = round().finally(() => {
      running = null;
      if (!closing.signal.aborted) timer = setTimeout(run, everyMs);
    });
  };
  run();

  return {
    wake() {
      if (running === null) run();
      else again = true;
    },
    async close() {
      closing.abort();
      clearTimeout(timer);
      await running;
    },
  };
}

/** One round: takes back what is no longer true, then sends what is due. */
const remind = (deps: ReminderDeps, signal: AbortSignal): Promise<void> =>
  alone(deps.database, async () => {
    await recallMails(deps, signal);
    await sendDueReminders(deps, signal);
  });

/**
 * Runs `work` unless another process does. Postgres keeps the lock for as long as the connection lives, so that a worker that
 * dies is replaced at once. The lock only saves work: should it be lost, no mail is sent twice.
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
