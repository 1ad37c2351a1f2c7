import { randomBytes } from 'node:crypto';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { Client } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { makeKeySecret } from '#shared/key-secret.ts';
import { startTestEdge } from '../support/edge-keys.ts';
import { as, sessionOf, startTestKeys, type TestKeys } from '../support/keys.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { createTestDatabase, rowsOf, type TestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait-for.ts';

const startMs = Date.parse('2026-06-01T12:00:00Z');
const clock = new ManualClock(startMs);
let database: TestDatabase;
let service: TestKeys;

beforeAll(async () => {
  database = await createTestDatabase();
  service = await startTestKeys(database.url, { clock });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await database.drop();
});

const inventedKey = (): string => makeKeySecret(randomBytes(32));

/** The same client, but it counts look-ups and can delay their answers. */
function watched(keys: Client<typeof KeysService>) {
  const state = { lookUps: 0, held: 0, gate: Promise.resolve() };
  const client: Client<typeof KeysService> = {
    ...keys,
    authenticate: async (request, options) => {
      state.lookUps += 1;
      const answer = await keys.authenticate(request, options);
      state.held += 1;
      await state.gate;
      return answer;
    },
  };
  return { client, state };
}

// On a clock that stands still, so that no lease lapses while a busy machine makes the test wait.
describe('an edge with a live feed', () => {
  test('looks up a key once, however many requests bring it at once, and then never again', async () => {
    const { secret } = await service.keys.createKey({ name: 'herd' }, as(sessionOf()));
    const { client, state } = watched(service.keys);
    await using edge = await startTestEdge(client, { clock });
    const decisions = await Promise.all(Array.from({ length: 500 }, () => edge.decide(secret)));
    expect(new Set(decisions)).toEqual(new Set(['accepted']));
    expect(edge.authenticate(secret)).not.toBeInstanceOf(Promise);
    expect(state.lookUps).toBe(1);
  });

  test('refuses mistyped keys without a look-up, and looks up a nonexistent key once', async () => {
    const { client, state } = watched(service.keys);
    await using edge = await startTestEdge(client, { clock });
    const valid = inventedKey();
    const mistyped = valid.slice(0, -1) + (valid.endsWith('0') ? '1' : '0');
    for (const token of [
      mistyped,
      'sk-proj-',
      `${valid}0`,
      `sk-proj-${'0'.repeat(49)}`,
      ` ${valid}`,
      valid.toLowerCase(),
    ]) {
      expect(await edge.decide(token)).toBe('INVALID_API_KEY');
    }
    expect(state.lookUps).toBe(0);
    for (let round = 0; round < 3; round++) expect(await edge.decide(valid)).toBe('INVALID_API_KEY');
    expect(state.lookUps).toBe(1);
  });

  test('refuses a cached key from the millisecond of its expiry on', async () => {
    const expiresAt = timestampFromMs(startMs + 10_000);
    const { secret } = await service.keys.createKey({ name: 'short', expiresAt }, as(sessionOf()));
    await using edge = await startTestEdge(service.keys, { clock });
    expect(await edge.decide(secret)).toBe('accepted');
    clock.set(startMs + 9_999);
    expect(await edge.decide(secret)).toBe('accepted');
    clock.set(startMs + 10_000);
    expect(() => edge.authenticate(secret)).toThrow('expired');
    expect(await edge.decide(secret)).toBe('EXPIRED_API_KEY');
    clock.set(startMs);
  });

  test('neither uses nor keeps an answer older than a deletion it has heard of', async () => {
    const user = as(sessionOf());
    const { key, secret } = await service.keys.createKey({ name: 'raced' }, user);
    const { client, state } = watched(service.keys);
    await using edge = await startTestEdge(client, { clock });
    const { promise, resolve } = Promise.withResolvers<void>();
    state.gate = promise;
    const early = edge.decide(secret);
    await waitFor(() => state.held === 1, { description: 'the answer to be read and held back' });
    await service.keys.deleteKey({ keyId: key!.id }, user);
    // After the answer to the deletion: it shares the look-up that began earlier.
    const late = edge.decide(secret);
    resolve();
    expect(await Promise.all([early, late])).toEqual(['INVALID_API_KEY', 'INVALID_API_KEY']);
    expect(state.lookUps).toBe(2);
  });

  test('counts uses, one per request, and reports them without a write per request', async () => {
    const user = as(sessionOf());
    const { key, secret } = await service.keys.createKey({ name: 'counted' }, user);
    const read = async () => (await service.keys.getKey({ keyId: key!.id }, user)).key!;
    {
      await using edge = await startTestEdge(service.keys, { clock });
      for (let use = 0; use < 25; use++) await edge.authenticate(secret);
      clock.set(startMs + 500);
      await edge.authenticate(secret);
      await edge.authenticate(secret, true);
      await waitFor(async () => (await read()).usageCount === 26n, { description: 'the uses to be reported' });
      await edge.authenticate(secret);
      // Closing reports the last one.
    }
    const { usageCount, lastUsedAt } = await read();
    expect(usageCount).toBe(27n);
    expect(lastUsedAt).toEqual(timestampFromMs(startMs + 500));
    clock.set(startMs);
  });

  test('keeps no more secrets than it has room for, and a flood evicts none in use', async () => {
    const user = as(sessionOf());
    const made = [];
    for (let index = 0; index < 10; index++) made.push(await service.keys.createKey({ name: 'many' }, user));
    await using edge = await startTestEdge(service.keys, { clock, capacity: 4 });
    for (const { secret } of made) expect(await edge.decide(secret)).toBe('accepted');
    expect(edge.size).toBe(4);
    const { secret } = made.at(-1)!;
    for (let round = 0; round < 10; round++) {
      await Promise.all(Array.from({ length: 20 }, () => edge.decide(inventedKey())));
    }
    expect(edge.size).toBe(4);
    expect(edge.authenticate(secret)).not.toBeInstanceOf(Promise);
  });
});

describe('an edge whose lease has lapsed', () => {
  test('looks up every request, by the clock it was given', async () => {
    const { secret } = await service.keys.createKey({ name: 'leased' }, as(sessionOf()));
    const edgeClock = new ManualClock(startMs);
    const { client, state } = watched(service.keys);
    await using edge = await startTestEdge(client, { clock: edgeClock });
    expect(await edge.decide(secret)).toBe('accepted');
    edgeClock.advance(2_000);
    expect(edge.isLive).toBe(false);
    const before = state.lookUps;
    expect(await Promise.all([edge.decide(secret), edge.decide(secret)])).toEqual(['accepted', 'accepted']);
    expect(state.lookUps).toBe(before + 2);
    await waitFor(() => edge.isLive, { description: 'the next acknowledgement' });
    await edge.decide(secret);
    expect(state.lookUps).toBe(before + 2);
  });
});

test('an edge names nobody as the holder of its lease while acknowledgements of two streams may have reached two processes', async () => {
  const { keys } = service;
  const late = Promise.withResolvers<void>();
  const holders: string[] = [];
  let former: AbortController | undefined;
  await using _edge = await startTestEdge(
    {
      ...keys,
      watchKeys(request, options) {
        const signals = options?.signal === undefined ? [] : [options.signal];
        const isFormer = former === undefined;
        if (isFormer) {
          former = new AbortController();
          signals.push(former.signal);
        }
        return keys.watchKeys(request, { ...options, signal: AbortSignal.any(signals) });
      },
      async acknowledgeKeys(request, options) {
        const place = holders.push(request.leaseHolder ?? '');
        const answer = await keys.acknowledgeKeys(request, options);
        if (place === 1) {
          former!.abort();
          await late.promise;
          return { ...answer, leaseHolder: 'the former one' };
        }
        // Heard before the next one is sent.
        if (place === 2) setImmediate(late.resolve);
        return { ...answer, leaseHolder: 'the latter one' };
      },
    },
    { clock },
  );
  await waitFor(() => holders.length > 3, { description: 'a fourth acknowledgement' });
  expect(holders.slice(0, 4)).toEqual(['', '', '', 'the latter one']);
});

test('a key works at every edge once its creation is answered, while floods of invented keys are looked up', async () => {
  await using first = await startTestEdge(service.keys);
  await using second = await startTestEdge(service.keys);
  await using third = await startTestEdge(service.keys);
  const edges = [first, second, third];
  const user = as(sessionOf());
  /** What each edge decides. A decision that came too late, as on a busy machine, says nothing, so the request is repeated. */
  const decisions = (secret: string) =>
    Promise.all(
      edges.map(async (edge) => {
        for (;;) {
          const decision = await edge.decide(secret);
          if (decision !== 'OVERLOADED') return decision;
        }
      }),
    );
  const everywhere = (decision: string) => edges.map(() => decision);
  let isDone = false;
  const flood = async (): Promise<void> => {
    while (!isDone) expect(await decisions(inventedKey())).toEqual(everywhere('INVALID_API_KEY'));
  };
  const person = async (): Promise<void> => {
    for (let count = 0; count < 4; count += 1) {
      const { key, secret } = await service.keys.createKey({ name: 'raced' }, user);
      // Twice at once, so that some share a look-up that others began.
      expect(await Promise.all([decisions(secret), decisions(secret)])).toEqual(Array(2).fill(everywhere('accepted')));
      const { secret: rotated } = await service.keys.rotateKey({ keyId: key!.id }, user);
      expect(await decisions(rotated)).toEqual(everywhere('accepted'));
      expect(await decisions(secret)).toEqual(everywhere('INVALID_API_KEY'));
      await service.keys.deleteKey({ keyId: key!.id }, user);
      expect(await decisions(rotated)).toEqual(everywhere('INVALID_API_KEY'));
    }
  };
  const persons = Promise.all([person(), person()]).finally(() => {
    isDone = true;
  });
  await Promise.all([persons, flood(), flood()]);
}, 300_000);

test('a key that a restored backup does not have is refused by an edge that served it and ran on', async () => {
  await using restored = await createTestDatabase();
  let running = await startTestKeys(restored.url);
  const client = new Proxy(running.keys, { get: (_, method) => Reflect.get(running.keys, method) });
  await using edge = await startTestEdge(client);
  const user = as(sessionOf());
  const before = await running.keys.createKey({ name: 'in the backup' }, user);
  const [backup] = await rowsOf(restored.url, 'select version from keys.feed');
  const { key, secret } = await running.keys.createKey({ name: 'newer' }, user);
  expect(await edge.decide(secret)).toBe('accepted');
  const [{ version }] = await rowsOf(restored.url, 'select version from keys.feed');
  const heard = () => rowsOf(restored.url, 'select from keys.watchers where acknowledged_version = $1', [version]);
  await waitFor(async () => (await heard()).length === 1, { description: 'the edge to hear of the creation' });

  await running[Symbol.asyncDispose]();
  await rowsOf(restored.url, 'delete from keys.digests where key_id = $1', [key!.id]);
  await rowsOf(restored.url, 'delete from keys.keys where id = $1', [key!.id]);
  await rowsOf(restored.url, 'delete from keys.changes where version > $1', [backup.version]);
  await rowsOf(restored.url, 'update keys.feed set version = $1', [backup.version]);
  running = await startTestKeys(restored.url);

  await waitFor(() => edge.isLive, { description: 'the feed to be live again' });
  const isRefused = async () => (await edge.decide(secret)) === 'INVALID_API_KEY';
  await waitFor(isRefused, { description: 'the key to be refused' });
  expect(await edge.decide(before.secret)).toBe('accepted');
  await edge.close();
  await running[Symbol.asyncDispose]();
});

test('a flood of invented keys costs bounded queries and no memory', async () => {
  const floodMax = process.env.LONG ? 1_000_000 : 20_000;
  const { client } = watched(service.keys);
  await using edge = await startTestEdge(client);
  const statementsBefore = await authenticateStatements();
  let heapBefore = 0;
  for (let done = 0; done < floodMax; done += 500) {
    // The first rounds fill everything that is bounded.
    if (done === floodMax / 2) heapBefore = process.memoryUsage().heapUsed;
    const decisions = await Promise.all(Array.from({ length: 500 }, () => edge.decide(inventedKey())));
    // On a busy machine some may not be answered in time; none is let in.
    for (const decision of decisions) expect(['INVALID_API_KEY', 'OVERLOADED']).toContain(decision);
  }
  const statements = (await authenticateStatements()) - statementsBefore;
  expect(statements).toBeGreaterThan(0);
  expect(statements).toBeLessThan(floodMax / 50);
  expect(edge.size).toBe(0);
  expect(process.memoryUsage().heapUsed - heapBefore).toBeLessThan(64 * 1024 * 1024);
}, 600_000);

/** How many look-ups the database has answered. Each scans the digests' index once per digest, so transactions are counted. */
async function authenticateStatements(): Promise<number> {
  const count = 'select xact_commit from pg_stat_database where datname = current_database()';
  const [{ xact_commit }] = await rowsOf(database.url, count);
  return Number(xact_commit);
}
