import pg from 'pg';
import { test } from 'vitest';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { ownJobsDatabase } from '../fixtures/test-queue.ts';
import { channels } from './channels.ts';
import { wakeWorkers } from './wake-workers.ts';

const { database, url } = await ownJobsDatabase();

test('workers are notified at once of a submission, once of many together, and of later ones though a notification failed', async () => {
  const listener = new pg.Client(url);
  await listener.connect();
  await listener.query(`listen ${channels.queued}`);
  let notified = 0;
  listener.on('notification', () => (notified += 1));
  const notifiedTimes = (times: number) =>
    waitFor(() => notified === times, { description: `notification ${times}`, timeoutMs: 5_000 });

  let isAway = false;
  let failed = 0;
  const query: typeof database.query = (statement) => {
    if (!isAway) return database.query(statement);
    failed += 1;
    return Promise.reject(new Error('away'));
  };
  const wake = wakeWorkers({ query }, silentLogger);
  for (let submission = 0; submission < 100; submission += 1) wake();
  await notifiedTimes(1);
  wake();
  await notifiedTimes(2);
  isAway = true;
  wake();
  await waitFor(() => failed === 1, { description: 'a notification that fails' });
  isAway = false;
  wake();
  await notifiedTimes(3);
  // Each of these comes after what the one before began has ended.
  const submitted = () => {
    wake();
    return notified >= 6;
  };
  await waitFor(submitted, { description: 'notifications of single submissions', intervalMs: 100, timeoutMs: 5_000 });
  await listener.end();
});
