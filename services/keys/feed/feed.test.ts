import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { WatchKeysResponse } from '#gen/modelgateway/keys/v1/feed_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { openServiceDatabase, type ServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { asService, Role } from '#shared/rpc/caller.ts';
import { as, digestsOf, reasonOf, sessionOf, startTestKeys, type TestKeys } from '../../../test/support/keys.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { createTestDatabase, rowsOf, type TestDatabase } from '../../../test/support/postgres.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { removeOutdated } from '../workers/housekeeping.ts';
import { openLeaseKeeper } from './lease-keeper.ts';

let testDatabase: TestDatabase;
let database: ServiceDatabase;
let started: TestKeys;
let keys: TestKeys['keys'];

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = await openServiceDatabase({
    service: 'keys',
    connection: testDatabase.url,
    entities: [],
    logger: silentLogger,
  });
  started = await startTestKeys(testDatabase.url);
  keys = started.keys;
});
afterAll(async () => {
  await started[Symbol.asyncDispose]();
  await database.close();
  await testDatabase.drop();
});

const edge = asService('edge');

/** The feed's events up to the first heartbeat, which says that there are no more at present. */
async function news(
  afterVersion: bigint,
  from: TestKeys['keys'] = keys,
): Promise<{ events: WatchKeysResponse[]; version: bigint }> {
  const events: WatchKeysResponse[] = [];
  for await (const event of from.watchKeys({ edgeId: uuidv7(), afterVersion }, edge)) {
    if (event.event.case !== 'heartbeat') events.push(event);
    // Before anything has been read, as on a busy machine, it says no more than that the feed lives.
    else if (event.version > 0n) return { events, version: event.version };
  }
  throw new Error('the feed ended');
}

const cases = (events: readonly WatchKeysResponse[]) => events.map(({ event }) => event.case);

test('an edge that comes back hears what it missed, in order; versions never fall', async () => {
  const user = as(sessionOf());
  const { key } = await keys.createKey({ name: 'watched' }, user);
  await keys.updateKey({ keyId: key!.id, updateMask: { paths: ['name'] }, name: 'renamed' }, user);
  const { version } = await news(0n);
  const spendCapNanoUsd = 5n;
  await keys.updateKey({ keyId: key!.id, updateMask: { paths: ['spend_cap_nano_usd'] }, spendCapNanoUsd }, user);
  await keys.rotateKey({ keyId: key!.id, gracePeriod: { seconds: 60n } }, user);
  await keys.rotateKey({ keyId: key!.id }, user);
  const missed = await news(version);
  // Each with its current state: the secret that had a grace period no longer has one.
  expect(cases(missed.events)).toEqual(['keyChanged', 'keyChanged', 'keyRemoved']);
  const versions = missed.events.map((event) => event.version);
  expect(versions).toEqual([...versions].sort((a, b) => Number(a - b)));
  expect(missed.version).toBe(versions.at(-1));
  await keys.deleteKey({ keyId: key!.id }, user);
  const { events } = await news(missed.version);
  expect(events[0]!.event).toMatchObject({ case: 'keyRemoved', value: { keyId: key!.id, wholeKey: true } });
});

test('a version is complete with its last event: earlier ones of the same change carry the one before', async () => {
  const user = as(sessionOf());
  const { key } = await keys.createKey({ name: 'graced' }, user);
  const { version } = await news(0n);
  await keys.rotateKey({ keyId: key!.id, gracePeriod: { seconds: 60n } }, user);
  const { events, version: last } = await news(version);
  expect(cases(events)).toEqual(['keyChanged', 'keyChanged']);
  expect(events.map((event) => event.version)).toEqual([last - 1n, last]);
});

test('an edge with an empty cache, one that was away for too long, and one ahead of a restored backup start over', async () => {
  const user = as(sessionOf());
  const { key } = await keys.createKey({ name: 'old news' }, user);
  const { version } = await news(0n);
  await keys.deleteKey({ keyId: key!.id }, user);
  expect(cases((await news(version)).events)).toEqual(['keyRemoved']);
  await database.query({ text: 'delete from changes', values: [] });
  expect(cases((await news(version)).events)).toEqual(['cacheReset']);
  expect(cases((await news(0n)).events)).toEqual(['cacheReset']);
  const { version: current } = await news(0n);
  expect(cases((await news(current + 1_000n)).events)).toEqual(['cacheReset']);
  expect((await news(current)).events).toEqual([]);
});

test('an edge that missed thousands of changes hears of all at once, not of some at each heartbeat', async () => {
  await using other = await createTestDatabase();
  await using quiet = await startTestKeys(other.url, { heartbeatMs: 60_000 });
  await quiet.keys.createKey({ name: 'changing' }, as(sessionOf()));
  const { version } = await news(0n, quiet.keys);
  const changed = 2_000n;
  await rowsOf(
    other.url,
    `with changed as (update keys.feed set version = version + ${changed} returning version)
      insert into keys.changes (version, kind, tenant_id, subject_id)
      select feed.version + each, 'key_changed', keys.tenant_id, keys.id from keys.feed, keys.keys, generate_series(1, ${changed}) as each`,
  );
  let heard = 0n;
  const request = { edgeId: uuidv7(), afterVersion: version };
  for await (const event of quiet.keys.watchKeys(request, { ...edge, timeoutMs: 30_000 })) {
    if (event.event.case === 'keyChanged') heard += 1n;
    if (event.version === version + changed) break;
  }
  expect(heard).toBe(changed);
});

test('an edge that knows the last change hears only the next one, however long nothing was changed', async () => {
  const user = as(sessionOf());
  const { key } = await keys.createKey({ name: 'quiet' }, user);
  const { version } = await news(0n);
  await rowsOf(testDatabase.url, `update keys.changes set changed_at = changed_at - interval '11 minutes'`);
  await removeOutdated({ database, clock: systemClock });
  await keys.deleteKey({ keyId: key!.id }, user);
  expect(cases((await news(version)).events)).toEqual(['keyRemoved']);
});

test('an edge that knew more than a failover kept starts over, whether its connection survived or not', async () => {
  const user = as(sessionOf());
  const { key } = await keys.createKey({ name: 'kept' }, user);
  const { version: kept } = await news(0n);
  for (const spendCapNanoUsd of [1n, 2n])
    await keys.updateKey({ keyId: key!.id, updateMask: { paths: ['spend_cap_nano_usd'] }, spendCapNanoUsd }, user);
  const { version: known } = await news(0n);
  const lasting = keys.watchKeys({ edgeId: uuidv7(), afterVersion: known }, edge)[Symbol.asyncIterator]();
  const next = async () => (await lasting.next()).value as WatchKeysResponse;
  expect(await next()).toMatchObject({ version: known, event: { case: 'heartbeat' } });
  await database.query({ text: 'delete from changes where version > $1', values: [kept] });
  await database.query({ text: 'update feed set version = $1', values: [kept] });

  await keys.deleteKey({ keyId: key!.id }, user);
  const { version: deleted } = await news(0n);
  let event = await next();
  while (event.event.case === 'heartbeat') event = await next();
  expect(event.event.case).toBe('cacheReset');
  while (event.version < deleted) event = await next();
  await lasting.return?.();
  expect(cases((await news(known)).events)).toEqual(['cacheReset']);
});

test('after a failover an edge starts over even if what it knew was kept: it may have heard of what was not', async () => {
  await using other = await createTestDatabase();
  let version: bigint;
  {
    await using before = await startTestKeys(other.url);
    await before.keys.createKey({ name: 'kept' }, as(sessionOf()));
    ({ version } = await news(0n, before.keys));
    expect((await news(version, before.keys)).events).toEqual([]);
  }
  await rowsOf(other.url, `update keys.feed set timeline = 'before'`);
  await using after = await startTestKeys(other.url);
  expect(cases((await news(version, after.keys)).events)).toEqual(['cacheReset']);
});

test('on a server that reports no timeline the feed works the same', async () => {
  await using other = await createTestDatabase();
  await rowsOf(other.url, 'revoke execute on function pg_walfile_name(pg_lsn) from public');
  await using silent = await startTestKeys(other.url);
  await silent.keys.createKey({ name: 'first' }, as(sessionOf()));
  const watching = silent.keys.watchKeys({ edgeId: uuidv7(), afterVersion: 0n }, edge)[Symbol.asyncIterator]();
  expect((await watching.next()).value?.event.case).toBe('cacheReset');
  expect((await watching.next()).value?.event.case).toBe('heartbeat');
  await watching.return?.();
  expect(await rowsOf(other.url, 'select timeline from keys.feed')).toEqual([{ timeline: null }]);
});

test('a lease begins only with the current version, so that nobody waits for an edge that is catching up', async () => {
  const user = as(sessionOf());
  const { key } = await keys.createKey({ name: 'leased' }, user);
  const { version } = await news(0n);
  const edgeId = uuidv7();
  const behind = await keys.acknowledgeKeys({ edgeId, version: version - 1n }, edge);
  expect(behind).toMatchObject({ leaseMs: 0, rewatch: false });
  const ahead = await keys.acknowledgeKeys({ edgeId, version: version + 5n }, edge);
  expect(ahead).toMatchObject({ leaseMs: 0, rewatch: true });
  const current = await keys.acknowledgeKeys({ edgeId, version }, edge);
  expect(current).toMatchObject({ leaseMs: 2_000, rewatch: false });

  let answered = false;
  const deletion = keys.deleteKey({ keyId: key!.id }, user).then(() => {
    answered = true;
  });
  let removedVersion = 0n;
  for await (const event of keys.watchKeys({ edgeId, afterVersion: version }, edge)) {
    removedVersion = event.version;
    if (event.event.case === 'keyRemoved') break;
  }
  // It has been told and has a lease, but has not acknowledged.
  expect(answered).toBe(false);
  await keys.acknowledgeKeys({ edgeId, version: removedVersion }, edge);
  await deletion;
});

test('the lease of an edge that still lacks a change after a second is not renewed, so that nobody waits for it', async () => {
  const { version } = await news(0n);
  const edgeId = uuidv7();
  expect(await keys.acknowledgeKeys({ edgeId, version }, edge)).toMatchObject({ leaseMs: 2_000 });
  await keys.createKey({ name: 'unheard of' }, as(sessionOf()));
  await database.query({
    text: `update changes set changed_at = changed_at - interval '1 second' where version > $1`,
    values: [version],
  });
  expect(await keys.acknowledgeKeys({ edgeId, version }, edge)).toMatchObject({ leaseMs: 0, rewatch: false });
  await keys.acknowledgeKeys({ edgeId, version, leaving: true }, edge);
});

test('a repeat of a deletion, revocation or update is answered only when no edge goes by the old state any more', async () => {
  const user = as(sessionOf());
  const [deleted, revoked, updated] = await Promise.all(
    ['deleted', 'revoked', 'updated'].map(async (name) => (await keys.createKey({ name }, user)).key!.id),
  );
  const { version } = await news(0n);
  const edgeId = uuidv7();
  await keys.acknowledgeKeys({ edgeId, version }, edge);
  const cap = { updateMask: { paths: ['spend_cap_nano_usd'] }, spendCapNanoUsd: 5n };
  const calls: (() => Promise<unknown>)[] = [
    () => keys.deleteKey({ keyId: deleted }, user),
    () => keys.revokeKey({ keyId: revoked }, as(sessionOf({ operator: true }))),
    () => keys.updateKey({ keyId: updated, ...cap }, user),
  ];
  // Each changes what it has to, and then waits for the edge.
  const first = calls.map((call) => call());
  const changes = { text: 'select from changes where version > $1', values: [version] };
  await waitFor(async () => (await database.query(changes)).rowCount === calls.length, { description: 'the changes' });
  const leases = 'select from watchers where edge_id = $1 and lease_until > clock_timestamp()';
  const repeats = calls.map(async (call) => {
    const answer = await reasonOf(call());
    return [answer, (await database.query({ text: leases, values: [edgeId] })).rowCount];
  });
  expect(await Promise.all(repeats)).toEqual([
    [ErrorReason.NOT_FOUND, 0],
    ['it succeeded', 0],
    ['it succeeded', 0],
  ]);
  await Promise.all(first);
});

test('if an unreachable edge may not know a change, its request is refused in time, saying what was done', async () => {
  const user = as(sessionOf());
  const { key, secret } = await keys.createKey({ name: 'not yet gone everywhere' }, user);
  const { version } = await news(0n);
  const edgeId = uuidv7();
  await keys.acknowledgeKeys({ edgeId, version }, edge);
  // Its keeper may have extended it, and is not heard from any more.
  const strand = `update watchers set keeper_id = $2, outage_until = clock_timestamp() + interval '1 minute' where edge_id = $1`;
  await database.query({ text: strand, values: [edgeId, uuidv7()] });
  const deletion = keys.deleteKey({ keyId: key!.id }, { ...user, timeoutMs: 3_000 });
  await expect(deletion).rejects.toMatchObject({
    reason: ErrorReason.DEADLINE_EXCEEDED,
    message: expect.stringContaining('The change was made'),
  });
  expect((await keys.authenticate({ digests: digestsOf(secret) }, edge)).principal).toBeUndefined();
  await keys.acknowledgeKeys({ edgeId, version, leaving: true }, edge);
});

test('after the database’s clock went back, nobody waits longer than before for an edge that has died', async () => {
  const user = as(sessionOf());
  const { key } = await keys.createKey({ name: 'not held up' }, user);
  const { version } = await news(0n);
  const edgeId = uuidv7();
  await keys.acknowledgeKeys({ edgeId, version }, edge);
  // As if it had been written an hour before the clock went back by one.
  await database.query({
    text: `update watchers set lease_until = lease_until + interval '1 hour', outage_until = outage_until + interval '1 hour'
      where edge_id = $1`,
    values: [edgeId],
  });
  await keys.deleteKey({ keyId: key!.id }, { ...user, timeoutMs: 10_000 });
});

test('a Keys process that was in touch only before the database’s clock went back may have extended a lease', async () => {
  const user = as(sessionOf());
  const { key } = await keys.createKey({ name: 'still waited for' }, user);
  const { version } = await news(0n);
  const edgeId = uuidv7();
  await keys.acknowledgeKeys({ edgeId, version }, edge);
  const strand = `with keeper as (
      insert into keepers (keeper_id, machine, pid, seen_at) values ($2, 'another', 1, clock_timestamp() + interval '1 hour')
      returning keeper_id)
    update watchers set keeper_id = keeper.keeper_id, outage_until = clock_timestamp() + interval '1 minute' from keeper
    where edge_id = $1`;
  await database.query({ text: strand, values: [edgeId, uuidv7()] });
  await expect(keys.deleteKey({ keyId: key!.id }, { ...user, timeoutMs: 3_000 })).rejects.toMatchObject({
    reason: ErrorReason.DEADLINE_EXCEEDED,
  });
  await keys.acknowledgeKeys({ edgeId, version, leaving: true }, edge);
});

const away = () => Object.assign(new Error('away'), { code: '08006' });

/** A keeper of leases that asks the database by `query`, and beats only when it is told to, and an edge that it grants leases. */
async function keeperAsking(query: ServiceDatabase['query']) {
  const clock = new ManualClock(0);
  const options = { database: { query, service: 'keys' }, clock, logger: silentLogger, beatMs: 3_600_000 } as const;
  const keeper = await openLeaseKeeper(options);
  const { version } = await news(0n);
  const edgeId = uuidv7();
  const leaseOf = async (id: string, holder: string) => (await keeper.acknowledge(id, version, holder)).leaseMs;
  // The keeper believes that a busy database is away.
  const granted = () =>
    waitFor(async () => (await leaseOf(edgeId, '')) === 2_000, { description: 'a lease from the database' });
  return { keeper, clock, version, edgeId, leaseOf, granted };
}

test('a Keys process without a database extends a lease only if nobody can have counted the edge out', async () => {
  let state: 'there' | 'away' | 'late' = 'there';
  const query: ServiceDatabase['query'] = (asked) => {
    if (state === 'away') return Promise.reject(away());
    // The parameters of the statement in which it says that it is in touch: the time after which that no longer counts.
    const [keeperId, extended, , ...rest] = asked.values ?? [];
    const isWord = asked.name === 'keys-note-in-touch';
    return database.query(isWord && state === 'late' ? { ...asked, values: [keeperId, extended, 0, ...rest] } : asked);
  };
  const { keeper, clock, version, edgeId, leaseOf, granted } = await keeperAsking(query);
  await granted();
  const { leaseHolder } = await keeper.acknowledge(edgeId, version, '');
  // Counted out, and so told to catch up.
  const isCountedOut = async () => {
    await rowsOf(testDatabase.url, 'update keys.watchers set lease_until = now() where edge_id = $1', [edgeId]);
    return (await keeper.acknowledge(edgeId, version - 1n, leaseHolder)).leaseMs === 0;
  };
  await waitFor(isCountedOut, { description: 'the end of the lease' });
  state = 'away';
  expect(await leaseOf(edgeId, leaseHolder)).toBe(0);
  state = 'there';
  await granted();
  clock.advance(1_000);
  state = 'away';
  expect(await leaseOf(edgeId, leaseHolder)).toBe(2_000);
  // Its first report after the outage reaches the database, where the earlier lease has ended: whoever waits for the edge goes on waiting.
  await rowsOf(testDatabase.url, 'update keys.watchers set lease_until = now() where edge_id = $1', [edgeId]);
  state = 'there';
  const isBack = () => keeper.settleLapsed().then(() => keeper.isInTouch);
  await waitFor(isBack, { description: 'the database to be back' });
  const leases = () => rowsOf(testDatabase.url, 'select from keys.watchers where edge_id = $1', [edgeId]);
  expect(await leases()).toHaveLength(1);
  // The extension is stored once, so that nobody waits for longer if the edge has died since.
  await rowsOf(testDatabase.url, 'update keys.watchers set lease_until = now() where edge_id = $1', [edgeId]);
  await waitFor(async () => (await isBack()) && (await leases()).length === 0, { description: 'the lapse' });
  state = 'away';
  // Another process has granted it anew since, or this one never did.
  expect(await leaseOf(edgeId, uuidv7())).toBe(0);
  expect(await leaseOf(uuidv7(), leaseHolder)).toBe(0);
  clock.advance(2_000);
  expect(await leaseOf(edgeId, leaseHolder)).toBe(0);

  // What it says too late is not stored: it must behave as if it had not been heard.
  state = 'late';
  await keeper.settleLapsed();
  expect(keeper.isInTouch).toBe(false);
  state = 'there';
  await granted();
  state = 'away';
  await keeper.close();
  expect(await leaseOf(edgeId, leaseHolder)).toBe(0);
  await keys.acknowledgeKeys({ edgeId, version, leaving: true }, edge);
});

test('an answer that the database gave before an outage, and that comes after it, does not hide an extension made meanwhile', async () => {
  let state: 'there' | 'late' | 'away' = 'there';
  const answers: (() => void)[] = [];
  const query: ServiceDatabase['query'] = async (asked) => {
    if (state === 'away' || (state === 'late' && asked.name === 'keys-note-in-touch')) throw away();
    const answer = await database.query(asked);
    if (state === 'late') await new Promise<void>((resolve) => answers.push(resolve));
    return answer as never;
  };
  const { keeper, clock, version, edgeId, leaseOf, granted } = await keeperAsking(query);
  await granted();
  const { leaseHolder } = await keeper.acknowledge(edgeId, version, '');
  state = 'late';
  expect(await leaseOf(edgeId, leaseHolder)).toBe(2_000);
  state = 'away';
  clock.advance(1_000);
  expect(await leaseOf(edgeId, leaseHolder)).toBe(2_000);
  for (const come of answers) come();
  await nextTurn();
  // The lease as the database has it ends before the extension, which the first report after the outage has to store.
  await rowsOf(testDatabase.url, 'update keys.watchers set lease_until = now() where edge_id = $1', [edgeId]);
  state = 'there';
  const isBack = () => keeper.settleLapsed().then(() => keeper.isInTouch);
  await waitFor(isBack, { description: 'the database to be back' });
  expect(await rowsOf(testDatabase.url, 'select from keys.watchers where edge_id = $1', [edgeId])).toHaveLength(1);
  await keeper.close();
  await keys.acknowledgeKeys({ edgeId, version, leaving: true }, edge);
});

test('a Keys process extends nothing while it tells the database that it is in touch, at whatever step of an extension that begins', async () => {
  let isAway = false;
  /** The edges whose extensions it told the database of since the outage; null: it told it nothing. */
  let told: readonly string[] | null = null;
  const query: ServiceDatabase['query'] = (asked) => {
    if (isAway) return Promise.reject(away());
    if (asked.name === 'keys-note-in-touch') told = asked.values![1] as string[];
    return database.query(asked);
  };
  const { keeper, version, edgeId, leaseOf, granted } = await keeperAsking(query);
  const outcomes: { isExtended: boolean; isTold: boolean }[] = [];
  for (let steps = 0; steps < 25; steps += 1) {
    await granted();
    const { leaseHolder } = await keeper.acknowledge(edgeId, version, '');
    isAway = true;
    const extending = leaseOf(edgeId, leaseHolder).catch(() => 0);
    for (let step = 0; step < steps; step += 1) await null;
    isAway = false;
    told = null;
    await keeper.settleLapsed();
    const isExtended = (await extending) > 0;
    if (told !== null) outcomes.push({ isExtended, isTold: (told as readonly string[]).includes(edgeId) });
  }
  expect(new Set(outcomes.map(({ isExtended }) => isExtended))).toEqual(new Set([true, false]));
  expect(outcomes.filter(({ isExtended, isTold }) => isExtended !== isTold)).toEqual([]);
  await keeper.close();
  await keys.acknowledgeKeys({ edgeId, version, leaving: true }, edge);
});

test('a database that is late once, as on a busy machine, is no warning; one that does not answer again is', async () => {
  const { lines, logger } = logCollector();
  let isAway = false;
  const query: ServiceDatabase['query'] = (asked) => {
    if (!isAway) return database.query(asked);
    return asked.name === 'keys-note-in-touch' ? new Promise(() => {}) : Promise.reject(new Error('away'));
  };
  const clock = new ManualClock(0);
  const keeper = await openLeaseKeeper({ database: { query, service: 'keys' }, clock, logger, beatMs: 3_600_000 });
  const beat = () => keeper.settleLapsed().catch(() => {});
  const warnings = () => lines.filter(({ level }) => Number(level) >= 40);
  isAway = true;
  await beat();
  expect([keeper.isInTouch, warnings()]).toEqual([false, []]);
  await beat();
  expect(warnings()).toMatchObject([{ msg: expect.stringContaining('edges go on with the keys they know') }]);
  // Where the code gave up waiting explains nothing.
  expect(warnings()[0]!.err).toEqual({ type: 'Error', message: 'The database does not answer in time' });
  isAway = false;
  await waitFor(() => beat().then(() => keeper.isInTouch), { description: 'the database to be back' });
  expect(lines.at(-1)).toMatchObject({ level: 30, msg: 'the database works again' });
  await keeper.close();
});

test('nobody waits for an edge that has left', async () => {
  const { version } = await news(0n);
  const edgeId = uuidv7();
  const leases = async () =>
    (await database.query({ text: 'select 1 from watchers where edge_id = $1', values: [edgeId] })).rowCount;
  await keys.acknowledgeKeys({ edgeId, version }, edge);
  expect(await leases()).toBe(1);
  expect(await keys.acknowledgeKeys({ edgeId, version, leaving: true }, edge)).toMatchObject({ leaseMs: 0 });
  expect(await leases()).toBe(0);
});

test('a repeated or late change of an organization or user changes nothing and bothers nobody; of several at once the newest counts', async () => {
  const { version } = await news(0n);
  const { tenantId, userId } = sessionOf();
  const auth = asService('auth');
  const refresh = (suspended: boolean, authVersion: bigint) =>
    keys.refreshPrincipals({ tenants: [{ tenantId, suspended, authVersion }] }, auth);
  const { version: changed } = await refresh(true, 2n);
  expect(changed).toBeGreaterThan(version);
  expect((await refresh(true, 2n)).version).toBe(changed);
  expect((await refresh(false, 1n)).version).toBe(changed);
  const user = (role: Role, authVersion: bigint) => ({ tenantId, userId, role, isActive: true, authVersion });
  const users = [user(Role.ADMIN, 3n), user(Role.OWNER, 4n), user(Role.MEMBER, 2n)];
  const { version: last } = await keys.refreshPrincipals({ users }, auth);
  expect((await keys.refreshPrincipals({ users: [user(Role.MEMBER, 3n)] }, auth)).version).toBe(last);
  const { events } = await news(version);
  expect(events.map(({ event }) => event)).toMatchObject([
    { case: 'tenantChanged', value: { tenantId, suspended: true, authVersion: 2n } },
    { case: 'userChanged', value: { tenantId, userId, role: Role.OWNER, authVersion: 4n } },
  ]);
});
