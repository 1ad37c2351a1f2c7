import { afterAll, beforeAll, expect, test } from 'vitest';
import type { FaultProxy } from '../support/fault-proxy.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { startPostgresProxy } from '../support/postgres-proxy.ts';
import { expectWritesRefused } from '../support/refused-writes.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { waitFor } from '../support/wait-for.ts';

let database: TestDatabase;
let postgres: FaultProxy & { url: string };
let bench: InferenceBench;

beforeAll(async () => {
  database = await createTestDatabase();
  postgres = await startPostgresProxy(database.url);
  bench = await startInferenceBench({ databaseUrl: postgres.url });
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
  await postgres?.close();
  await database?.drop();
});

const messages = [{ role: 'user' as const, content: 'Hi' }];
const chat = { model: 'sim-chat', messages };

test('while Postgres is down calls go on, writes are 503 with Retry-After, and within 10 s of its return all is well', async () => {
  const { gateway, simulator, session, key, client } = bench;
  await client.chat.completions.create(chat);
  const released = Promise.withResolvers<void>();
  simulator.next({ hold: { until: released.promise, afterChunks: 3 } });
  const stream = await client.chat.completions.create({ ...chat, stream: true });
  await waitFor(() => simulator.requests.length === 2, { description: 'the stream to begin' });

  const published = await gateway.call('GET', '/.well-known/jwks.json');
  expect(JSON.parse(published.text).keys).toHaveLength(1);

  await postgres.set({ kind: 'reset' });
  await expectWritesRefused(bench);
  // Health concerns the process alone; the probe must not wait for Postgres.
  expect((await gateway.call('GET', '/healthz')).status).toBe(200);
  const stillPublished = await gateway.call('GET', '/.well-known/jwks.json');
  expect([stillPublished.status, stillPublished.text]).toEqual([200, published.text]);
  expect((await client.chat.completions.create(chat)).choices).toHaveLength(1);
  released.resolve();
  let finish: string | null = null;
  for await (const { choices } of stream) finish = choices[0]?.finish_reason ?? finish;
  expect(finish).toBe('stop');

  await postgres.set({ kind: 'pass' });
  using watch = startStopwatch();
  const again = async () =>
    (await gateway.call('POST', '/api/v1/api-keys', session, { name: 'after it' })).status === 201;
  await waitFor(again, { description: 'a key to be made', timeoutMs: 10_000 });
  expect(watch.ms).toBeLessThan(10_000);
  // What was refused was not done, and usage that was served was kept until it could be stored.
  const { data } = (await gateway.call('GET', '/api/v1/api-keys', session)).json;
  expect(data.map(({ name }: { name: string }) => name).sort()).toEqual(['after it', 'test key']);
  const history = `/api/v1/usage/history?api_key_id=${key.id}`;
  const events = await waitFor(
    async () => {
      const { json } = await gateway.call('GET', history, session);
      return json.data.length >= simulator.requests.length && json.data;
    },
    { description: 'the events of all calls' },
  );
  expect(events).toHaveLength(3);
});
