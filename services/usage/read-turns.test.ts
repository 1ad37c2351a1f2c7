import pg from 'pg';
import { expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { tenantId, testEvent, testId, userId } from './fixtures/test-events.ts';
import { asPerson, asService, startTestUsage, testNowMs } from './fixtures/test-usage.ts';

test('one organization’s reads, however many and slow, leave connections for storing, grants and others’ reads', async () => {
  await using usage = await startTestUsage();
  const { client } = usage;
  const history = (of: string) =>
    client.listHistory({}, asPerson({ tenantId: of, userId })).then(
      () => null,
      ({ reason }) => reason,
    );
  // Its partition is known from then on.
  await client.record({ events: [testEvent(testNowMs)] }, asService());
  const [owner, watch] = [new pg.Client(usage.databaseUrl), new pg.Client(usage.databaseUrl)];
  await Promise.all([owner.connect(), watch.connect()]);
  try {
    await owner.query('begin');
    // Histories use it, and apart from them only what creates partitions.
    await owner.query('lock table usage.events_retention in access exclusive mode');
    let ended = 0;
    const reads = Array.from({ length: 60 }, async () => {
      const reason = await history(tenantId);
      ended += 1;
      return reason;
    });
    // What is too much for a queue is refused at once.
    await waitFor(() => ended === 8, { description: 'the refusals' });
    const read = history(testId(200));
    const atOnce = async () => {
      const { rows } = await watch.query(
        `select count(*)::int from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock' and query like 'select kept_from from%'`,
      );
      return rows[0].count === 3;
    };
    await waitFor(atOnce, { description: 'two reads of the one, and that of the other' });
    await client.record({ events: [testEvent(testNowMs)] }, asService());
    await client.quota({ replicaId: testId(202) }, asService());
    expect(ended).toBe(8);
    expect(await atOnce()).toBe(true);
    await owner.query('rollback');
    expect(await read).toBeNull();
    const reasons = await Promise.all(reads);
    expect(reasons.filter((reason) => reason === ErrorReason.RATE_LIMITED)).toHaveLength(8);
    expect(reasons.filter((reason) => reason === null)).toHaveLength(52);
  } finally {
    await Promise.all([owner.end(), watch.end()]);
  }
});
