import { expect, test } from 'vitest';
import { createTestDatabase, rowsOf } from '../../test/support/postgres.ts';
import { logCollector } from '../../test/support/rpc-carriers.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { openSnapshotFeed } from './snapshot-feed.ts';

test('a change that could not be read is read again, without another notification, and the outage told once', async () => {
  await using database = await createTestDatabase();
  const { logger, lines } = logCollector();
  const state = { number: 1, isAway: false };
  let failed = 0;
  const feed = await openSnapshotFeed({
    name: 'the state',
    channel: 'state_changed',
    read: async () => {
      if (state.isAway) {
        failed += 1;
        throw new Error('the database is away');
      }
      return { number: state.number };
    },
    connection: database.url,
    logger,
  });
  try {
    Object.assign(state, { number: 2, isAway: true });
    await rowsOf(database.url, 'notify state_changed');
    await waitFor(() => failed === 3, { description: 'readings that fail' });
    expect(feed.snapshot).toEqual({ number: 1 });
    state.isAway = false;
    await waitFor(() => feed.snapshot.number === 2, { description: 'the change' });
    // An outage of an hour is not told at each of the tries.
    const told = lines.filter(({ msg, level }) => String(msg).startsWith('reading the state') && level !== 20);
    expect(told).toMatchObject([
      { level: 40, failures: 2, msg: 'reading the state failed; it will be retried' },
      { level: 30, failures: 3 },
    ]);
  } finally {
    await feed.close();
  }
});

test('who asks while a reading fails gets what the next one brings', async () => {
  await using database = await createTestDatabase();
  const state = { number: 1, read: async () => {} };
  const read = async () => {
    await state.read();
    return { number: state.number };
  };
  const { logger } = logCollector();
  const feed = await openSnapshotFeed({
    name: 'the state',
    channel: 'state_changed',
    read,
    connection: database.url,
    logger,
  });
  try {
    const reading = Promise.withResolvers<void>();
    state.read = () => reading.promise;
    const before = feed.refresh();
    Object.assign(state, { number: 2, read: async () => {} });
    const after = feed.refresh();
    reading.reject(new Error('the database is away'));
    await Promise.all([before, after]);
    expect(feed.snapshot).toEqual({ number: 2 });
  } finally {
    await feed.close();
  }
});
