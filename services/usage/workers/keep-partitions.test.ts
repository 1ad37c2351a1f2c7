import pg from 'pg';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { migrateAll } from '#shared/db/migrate.ts';
import { openServiceDatabase, type ServiceDatabase } from '#shared/db/orm.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { migrations } from '../db/migrations/index.ts';
import { tenantId, testEvent, userId } from '../fixtures/test-events.ts';
import { asPerson, asService, startTestUsage, type TestUsage } from '../fixtures/test-usage.ts';
import { startUsage } from '../start.ts';
import { keepPartitions } from './keep-partitions.ts';

const { logger } = logCollector();
let usage: TestUsage;
let database: ServiceDatabase;
let owner: pg.Client;
beforeAll(async () => {
  usage = await startTestUsage();
  // The worker goes by the database's clock, so these events are placed around the true present.
  usage.clock.set(Date.now());
  database = await openServiceDatabase({ service: 'usage', connection: usage.databaseUrl, entities: [], logger });
  owner = new pg.Client({ connectionString: usage.databaseUrl });
  await owner.connect();
});
afterAll(async () => {
  await owner.end();
  await database.close();
  await usage[Symbol.asyncDispose]();
});

const monthsAgo = (months: number): number => {
  const now = new Date();
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - months, 15);
};
const partitions = async (): Promise<string[]> => {
  const { rows } = await owner.query<{ name: string }>(
    `select inhrelid::regclass::text as name from pg_inherits where inhparent = 'usage.events'::regclass order by 1`,
  );
  return rows.map(({ name }) => name);
};
const history = () => usage.client.listHistory({}, asPerson({ tenantId, userId }));

test('partitions exist for the months ahead', async () => {
  await keepPartitions({ database, monthsKept: 25, logger });
  const months = [0, -1, -2].map((ago) => new Date(monthsAgo(ago)).toISOString().slice(0, 7).replace('-', '_'));
  expect(await partitions()).toEqual(months.map((month) => `usage.events_${month}`));
  await keepPartitions({ database, monthsKept: 25, logger });
  expect(await partitions()).toHaveLength(3);
});

test('the latest events are vacuumed soon, however many there are, also in months from before an upgrade', async () => {
  const thresholds = async () => {
    const { rows } = await owner.query<{ options: string[] | null }>(
      `select reloptions as options from pg_class join pg_inherits on inhrelid = oid where inhparent = 'usage.events'::regclass`,
    );
    return rows.map(({ options }) => options);
  };
  const early = ['autovacuum_vacuum_insert_scale_factor=0', 'autovacuum_vacuum_insert_threshold=100000'];
  expect(await thresholds()).toEqual(Array(3).fill(early));
  const [oldest] = await partitions();
  await owner.query(`
    alter table ${oldest} reset (autovacuum_vacuum_insert_scale_factor, autovacuum_vacuum_insert_threshold);
    delete from usage.schema_migrations where name = '0014-vacuum-events-early'`);
  await migrateAll(usage.databaseUrl, [{ service: 'usage', migrations }], logger);
  expect(await thresholds()).toEqual(Array(3).fill(early));
});

test('of years of monthly partitions, those past retention are removed', async () => {
  await owner.query(
    `select usage.add_events_partition((date_trunc('month', now()) - make_interval(months => ago))::date) from generate_series(1, 20) as ago`,
  );
  // As autovacuum does eventually: a plan for many partitions reads everything in the database, not each partition by its id.
  await owner.query('analyze pg_class; analyze pg_inherits');
  await keepPartitions({ database, monthsKept: 12, logger });
  expect(await partitions()).toHaveLength(3 + 12);
});

test('events past retention are removed, roll-ups stay, and a late repeat is refused rather than counted again', async () => {
  const old = testEvent(monthsAgo(5));
  const recent = testEvent(monthsAgo(1));
  // Both may be in one week, which is kept in one row.
  const now = new Date();
  const keptFromMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 2, 1);
  const [last, first] = [testEvent(keptFromMs - 1), testEvent(keptFromMs)];
  await usage.client.record({ events: [old, recent, last, first] }, asService());
  await usage.gatherDays();
  await database.query({ text: 'delete from charge_batches' });

  await keepPartitions({ database, monthsKept: 2, logger });
  const { events, pageInfo } = await history();
  expect(events.map(({ id }) => id)).toEqual([recent.id, first.id]);
  expect(pageInfo?.total).toBe(2n);
  // Of all organizations, too.
  const [startDate, endDate] = [keptFromMs - 1, keptFromMs].map((ms) => new Date(ms).toISOString().slice(0, 10));
  const operator = asPerson({ tenantId, userId, operator: true });
  const ofAll = await usage.client.adminFindCalls({ range: { startDate, endDate } }, operator);
  expect(ofAll.events.map(({ id }) => id)).toEqual([first.id]);
  expect(ofAll.pageInfo?.total).toBe(1n);
  const rollups = await owner.query('select sum(requests)::int as requests from usage.rollups');
  expect(rollups.rows).toEqual([{ requests: 4 }]);

  // This process still believes in the partition; its next attempt is told.
  await expect(usage.client.record({ events: [old] }, asService())).rejects.toThrow();
  expect(await usage.registry.metrics()).toContain('gateway_usage_refused_batches_total 1');
  const repeat = await usage.client.record({ events: [old, recent] }, asService());
  expect(repeat).toMatchObject({ accepted: 0, duplicates: 1, rejected: [{ index: 0, eventId: old.id }] });
});

test('a month whose events are yet to be charged is kept', async () => {
  const waiting = testEvent(monthsAgo(2));
  await usage.client.record({ events: [waiting] }, asService());
  await keepPartitions({ database, monthsKept: 0, logger });
  expect(await partitions()).toContain(
    `usage.events_${new Date(monthsAgo(2)).toISOString().slice(0, 7).replace('-', '_')}`,
  );
});

test('a month is kept if an event that is yet to be charged is stored while its removal waits for that', async () => {
  await database.query({ text: 'delete from charge_batches' });
  const before = await partitions();
  await owner.query('begin; lock table usage.events in row exclusive mode');
  const { id } = testEvent(monthsAgo(2));
  await owner.query(
    'insert into usage.charge_batches (id, first_event_id, tenant_ids, event_ids) values (gen_random_uuid(), $1, array[$2]::uuid[], array[$1]::uuid[])',
    [id, tenantId],
  );
  const kept = keepPartitions({ database, monthsKept: 0, logger });
  const waiting = 'select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))';
  await waitFor(async () => (await owner.query(waiting)).rowCount === 1, { description: 'the removal to wait' });
  await owner.query('commit');
  await kept;
  expect(await partitions()).toEqual(before);
});

test('the service’s role can neither change an event nor drop a partition', async () => {
  const [partition] = await partitions();
  for (const text of [
    'update events set cost_nano_usd = 0',
    'delete from events',
    `delete from ${partition}`,
    `update ${partition} set cost_nano_usd = 0`,
    `drop table ${partition}`,
    'update events_retention set kept_from = now()',
  ]) {
    await expect(database.query({ text }), text).rejects.toMatchObject({ code: '42501' });
  }
});

test('a process that stops while it maintains partitions ends in silence: its connections close after its work', async () => {
  const { lines, logger } = logCollector('warn');
  for (let start = 0; start < 5; start += 1) {
    const started = await startUsage({
      connection: usage.databaseUrl,
      auth: { getUsers: () => Promise.reject(new Error('nobody asks')) },
      keys: { describeKeys: () => Promise.reject(new Error('nobody asks')) },
      registry: new Registry(),
      clock: usage.clock,
      logger,
    });
    await started.close();
  }
  expect(lines).toEqual([]);
});
