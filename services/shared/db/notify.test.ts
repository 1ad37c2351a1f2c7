import pg from 'pg';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createLogger } from '#shared/logger.ts';
import { createEmptyDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { startPostgresProxy } from '../../../test/support/postgres-proxy.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { migrateAll } from './migrate.ts';
import { type Listener, listen, notify } from './notify.ts';
import { openServiceDatabase, type ServiceDatabase } from './orm.ts';
import { sqlTransaction, transaction } from './transaction.ts';

const lines: string[] = [];
const logger = createLogger({ level: 'info', name: 'test', destination: { write: (line) => void lines.push(line) } });
let testDatabase: TestDatabase;
let database: ServiceDatabase;
let listener: Listener;
const channels = ['plain', 'orm', 'undone', 'after', 'still here'];
const heard: string[] = [];
let gaps = 0;

beforeAll(async () => {
  testDatabase = await createEmptyDatabase();
  await migrateAll(testDatabase.url, [{ service: 'news', migrations: [] }], logger);
  database = await openServiceDatabase({ service: 'news', connection: testDatabase.url, entities: [], logger });
  listener = await listen({
    connection: testDatabase.url,
    channels: Object.fromEntries(channels.map((channel) => [channel, () => heard.push(channel)])),
    onGap: () => {
      gaps += 1;
    },
    logger,
  });
});

afterAll(async () => {
  await listener?.close();
  await database?.close();
  await testDatabase?.drop();
});

test('a notification is delivered when its transaction commits, from plain SQL and from the ORM', async () => {
  await sqlTransaction(database, (client) => notify(client, 'plain'));
  await transaction(database, (em) => notify(em, 'orm'));
  await vi.waitFor(() => expect(heard).toEqual(['plain', 'orm']), 30_000);
});

test('a notification from a transaction that is rolled back is never delivered', async () => {
  heard.length = 0;
  const rolledBack = sqlTransaction(database, async (client) => {
    await notify(client, 'undone');
    throw new Error('changed my mind');
  });
  await expect(rolledBack).rejects.toThrow('changed my mind');
  // Notifications keep their order: once the later one is here, the earlier one cannot come any more.
  await sqlTransaction(database, (client) => notify(client, 'after'));
  await vi.waitFor(() => expect(heard).toEqual(['after']), 30_000);
});

test("a start goes on if Postgres takes longer for a listener's first connection than the limit", async () => {
  await using proxy = await startPostgresProxy(testDatabase.url);
  await proxy.set({ kind: 'freeze' });
  const starting = listen({ connection: proxy.url, channels: {}, onGap: () => {}, logger });
  starting.catch(() => {});
  await waitFor(() => proxy.accepted > 1, { description: 'another connection' }).finally(() =>
    proxy.set({ kind: 'pass' }),
  );
  await (await starting).close();
});

test('a listener whose connection is cut listens again, says that it missed something, and logs why, and that it listens again', async () => {
  heard.length = 0;
  gaps = 0;
  const admin = new pg.Client({ connectionString: testDatabase.url });
  await admin.connect();
  await admin.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where application_name = 'modelgateway-listen' and datname = current_database()`,
  );
  await admin.end();
  await vi.waitFor(() => expect(gaps).toBe(1), 30_000);
  expect(lines.join('')).toMatch(
    /terminating connection due to administrator command.*listening for notifications of .* failed/,
  );
  await waitFor(() => /listening for notifications of .* works again/.test(lines.at(-1)!), {
    description: 'the end of the outage in the log',
  });
  await sqlTransaction(database, (client) => notify(client, 'still here'));
  await vi.waitFor(() => expect(heard).toEqual(['still here']), 30_000);
});

test('a listener closes although its server is frozen', async () => {
  await using proxy = await startPostgresProxy(testDatabase.url);
  const listening = await listen({ connection: proxy.url, channels: {}, onGap: () => {}, logger });
  await proxy.set({ kind: 'freeze' });
  await listening.close();
}, 10_000);
