import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { expectWritesRefused } from '../support/refused-writes.ts';
import { waitFor } from '../support/wait-for.ts';

let database: TestDatabase;
let bench: InferenceBench;
let admin: pg.Client;

beforeAll(async () => {
  database = await createTestDatabase();
  bench = await startInferenceBench({ databaseUrl: database.url });
  admin = new pg.Client({ connectionString: database.url, options: '-c default_transaction_read_only=off' });
  await admin.connect();
});
afterAll(async () => {
  await admin?.end();
  await bench?.[Symbol.asyncDispose]();
  await database?.drop();
});

const chat = { model: 'sim-chat', messages: [{ role: 'user' as const, content: 'Hi' }] };

/** As a provider does when its disk is full: the setting applies to new connections, and existing ones are ended. */
async function takeNoWrites(): Promise<void> {
  await admin.query(`alter database ${database.name} set default_transaction_read_only = on`);
  await admin.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  );
}
const takeWritesAgain = () => admin.query(`alter database ${database.name} reset default_transaction_read_only`);

test('while Postgres takes no writes calls go on, changes are 503 with Retry-After, no job result is lost, and afterwards all is well without a restart', async () => {
  const { gateway, simulator, session, key, client } = bench;
  await client.chat.completions.create(chat);
  const released = Promise.withResolvers<void>();
  simulator.next({ hold: { until: released.promise } });
  const { id: jobId } = (await gateway.call('POST', '/v1/chat/completions', key.key, { ...chat, background: true }))
    .json;
  await waitFor(() => simulator.requests.length === 2, { description: 'the job to be under way' });

  await takeNoWrites();
  await expectWritesRefused(bench);
  expect((await client.chat.completions.create(chat)).choices).toHaveLength(1);
  released.resolve();
  await waitFor(() => simulator.requests[1]!.outcome === 'completed', { description: 'the job to be answered' });

  await takeWritesAgain();
  const made = async () => (await gateway.call('POST', '/api/v1/api-keys', session, { name: 'after it' })).status;
  await waitFor(async () => (await made()) === 201, { description: 'a key to be made', timeoutMs: 10_000 });
  const names = (await gateway.call('GET', '/api/v1/api-keys', session)).json.data.map(
    (one: { name: string }) => one.name,
  );
  expect(names.sort()).toEqual(['after it', 'test key']);
  const isDone = async () => (await gateway.call('GET', `/api/v1/jobs/${jobId}`, session)).json.status === 'completed';
  await waitFor(isDone, { description: 'the job to be done', timeoutMs: 60_000 });
  // The answer that arrived meanwhile is used: no upstream was asked for another.
  expect(simulator.requests).toHaveLength(3);
  const stored = async () =>
    (await gateway.call('GET', `/api/v1/usage/history?api_key_id=${key.id}`, session)).json.data.length >= 3;
  await waitFor(stored, { description: 'the events of all calls' });
  const { rows } = await admin.query(
    'select count(*)::int as events, count(distinct request_id)::int as calls from usage.events',
  );
  expect(rows).toEqual([{ events: 3, calls: 3 }]);
});
