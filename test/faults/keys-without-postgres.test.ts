import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeKeySecret } from '#shared/key-secret.ts';
import { startTestEdge, type TestEdge } from '../support/edge-keys.ts';
import type { FaultProxy } from '../support/fault-proxy.ts';
import { as, sessionOf, startTestKeys, type TestKeys } from '../support/keys.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { createTestDatabase, rowsOf, type TestDatabase } from '../support/postgres.ts';
import { startPostgresProxy } from '../support/postgres-proxy.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { waitFor } from '../support/wait-for.ts';

/* reliability.md: while Postgres is down nobody can revoke, and cached keys work for up to 60 s; a revocation that was answered holds. */

/** The edges and their Keys run on a clock that stands still; the database and the other Keys on the real one. */
let closers: AsyncDisposableStack;
let clock: ManualClock;
let database: TestDatabase;
/** Between the first Keys process and Postgres. */
let proxy: FaultProxy;
let cutOff: TestKeys;
/** Reaches Postgres all the time. */
let other: TestKeys;
let edge: TestEdge;
/** How many times the edge was granted an extension of its lease. */
let acknowledged = 0;
const user = as(sessionOf());

beforeEach(async () => {
  closers = new AsyncDisposableStack();
  clock = new ManualClock(Date.now());
  database = closers.use(await createTestDatabase());
  const postgres = closers.use(await startPostgresProxy(database.url));
  proxy = postgres;
  cutOff = closers.use(await startTestKeys(postgres.url, { clock, heartbeatMs: 20 }));
  other = closers.use(await startTestKeys(database.url, { heartbeatMs: 20 }));
  const { keys } = cutOff;
  // The first change of a new database makes edges forget what they know.
  await keys.createKey({ name: 'earlier' }, user);
  // If an answer took longer than a real second, the edge would lose its keeper; here all time is the clock's.
  const acknowledgeKeys: typeof keys.acknowledgeKeys = async (request, options) => {
    const answer = await keys.acknowledgeKeys(request, { ...options, timeoutMs: 60_000 });
    // A failed one, as while the loss of the database is noticed, extends nothing.
    acknowledged += 1;
    return answer;
  };
  edge = closers.use(await startTestEdge({ ...keys, acknowledgeKeys }, { clock }));
});
afterEach(async () => {
  await back();
  await closers.disposeAsync();
});

const away = async (): Promise<void> => {
  await proxy.set({ kind: 'refuse' });
  proxy.resetAll();
};
const back = async (): Promise<void> => {
  await proxy.set({ kind: 'pass' });
  proxy.resetAll();
};

/** Lets the edge's time pass second by second; surviving each one takes a further extension. */
async function pass(seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second++) {
    clock.advance(1_000);
    // An extension reaches beyond the next second; without one, the lease of 2 s would end there for an edge that hears nothing. Of three
    // answers the first may have been requested before the step, and the second for a heartbeat from before it; the third is for a later
    // one.
    const enough = acknowledged + 3;
    await waitFor(() => acknowledged >= enough || !edge.isLive, { description: 'an extension', timeoutMs: 30_000 });
  }
}

test('a cached key works for a minute and no longer, and an unknown one is refused with 503', async () => {
  const { secret } = await cutOff.keys.createKey({ name: 'cached' }, user);
  const { secret: unseen } = await cutOff.keys.createKey({ name: 'not cached' }, user);
  expect(await edge.decide(secret)).toBe('accepted');
  await away();
  await pass(50);
  expect(edge.isLive).toBe(true);
  expect(await edge.decide(secret)).toBe('accepted');
  expect(await edge.decide(unseen)).toBe('OVERLOADED');
  expect(await edge.decide(makeKeySecret(randomBytes(32)))).toBe('OVERLOADED');
  await pass(11);
  expect(edge.isLive).toBe(false);
  expect(await edge.decide(secret)).toBe('OVERLOADED');

  await back();
  await waitFor(() => edge.isLive, { description: 'the feed to come back', timeoutMs: 10_000 });
  expect(await edge.decide(secret)).toBe('accepted');
  expect(await edge.decide(unseen)).toBe('accepted');
});

test('a deletion after the return is acknowledged, and then the key is accepted nowhere', async () => {
  const { key, secret } = await cutOff.keys.createKey({ name: 'deleted after' }, user);
  expect(await edge.decide(secret)).toBe('accepted');
  await away();
  await pass(10);
  await expect(cutOff.keys.deleteKey({ keyId: key!.id }, user)).rejects.toThrow();
  expect(await edge.decide(secret)).toBe('accepted');
  await back();
  await waitFor(() => cutOff.keys.deleteKey({ keyId: key!.id }, user).then(() => true), {
    description: 'a deletion that is answered',
    timeoutMs: 10_000,
  });
  expect(await edge.decide(secret)).toBe('INVALID_API_KEY');
});

test('a deletion through a process that still has the database waits for an edge whose process does not', async () => {
  const { key, secret } = await cutOff.keys.createKey({ name: 'split' }, user);
  expect(await edge.decide(secret)).toBe('accepted');
  await away();
  await pass(5);
  let answered = false;
  const deletion = other.keys.deleteKey({ keyId: key!.id }, user).then(() => {
    answered = true;
  });
  // If the test fails before it awaits the deletion, that failure is the one to report.
  deletion.catch(() => {});
  // Long after the lease that the database knows of, the edge still works, and the deletion waits.
  const untilMs = performance.now() + 3_000;
  let acceptedAfter = 0;
  while (performance.now() < untilMs) {
    const wasAnswered = answered;
    if ((await edge.decide(secret)) === 'accepted' && wasAnswered) acceptedAfter += 1;
    await new Promise(setImmediate);
  }
  expect(answered).toBe(false);
  // A busy machine may have kept it from renewing its lease for a moment.
  await expect.poll(() => edge.decide(secret)).toBe('accepted');
  await back();
  await deletion;
  expect(await edge.decide(secret)).not.toBe('accepted');
  expect(acceptedAfter).toBe(0);
});

test('after an outage longer than changes are kept, an edge whose feed survived accepts nothing that was deleted', async () => {
  const [one, two] = await Promise.all(['one', 'two'].map((name) => cutOff.keys.createKey({ name }, user)));
  for (const { secret } of [one!, two!]) expect(await edge.decide(secret)).toBe('accepted');
  await away();
  await pass(5);
  const [{ version }] = await rowsOf(database.url, 'select version from keys.feed');
  const deletions = Promise.all([one!, two!].map(({ key }) => other.keys.deleteKey({ keyId: key!.id }, user)));
  const changes = () => rowsOf(database.url, 'select from keys.changes where version > $1', [version]);
  await waitFor(async () => (await changes()).length === 2, { description: 'the deletions to be committed' });
  // What the housekeeping of a process with the database does after ten minutes.
  await rowsOf(database.url, 'delete from keys.changes where version < (select version from keys.feed)');
  await back();
  await deletions;
  await waitFor(() => edge.isLive, { description: 'the feed to go on', timeoutMs: 10_000 });
  for (const { secret } of [one!, two!]) expect(await edge.decide(secret)).toBe('INVALID_API_KEY');
});

test('an edge that says goodbye is not waited for', async () => {
  const { key, secret } = await other.keys.createKey({ name: 'goodbye' }, user);
  expect(await edge.decide(secret)).toBe('accepted');
  await edge.close();
  using watch = startStopwatch();
  await other.keys.deleteKey({ keyId: key!.id }, user);
  // The lease would have run for 2 s.
  expect(watch.ms).toBeLessThan(1_000);
});
