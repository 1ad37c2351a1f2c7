import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { patiently } from '#shared/db/patiently.ts';
import { ErrorReason } from '#shared/errors.ts';
import { as, type KeysBench, reasonOf, sessionOf, startKeysBench } from '../../test/support/keys.ts';

let bench: KeysBench;
let keys: KeysBench['keys'];
let clock: KeysBench['clock'];
let startMs: KeysBench['startMs'];
beforeAll(async () => {
  bench = await startKeysBench();
  ({ keys, clock, startMs } = bench);
});
afterAll(() => bench[Symbol.asyncDispose]());
beforeEach(() => clock.set(startMs));

const operator = as(sessionOf({ operator: true }));

describe('the quota', () => {
  test('of 50 creations at 9 of 10 exactly one succeeds', async () => {
    const user = as(sessionOf());
    for (let made = 0; made < 9; made++) await keys.createKey({ name: `key ${made}` }, user);
    const reasons = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        // Those kept waiting by the database come again.
        reasonOf(patiently(() => keys.createKey({ name: `race ${index}` }, user))),
      ),
    );
    expect(reasons.filter((reason) => reason === 'it succeeded')).toHaveLength(1);
    expect(reasons.filter((reason) => reason === ErrorReason.KEY_QUOTA_EXCEEDED)).toHaveLength(49);
    expect((await keys.listKeys({}, user)).page!.total).toBe(10n);
  });

  test('is not used by a key for which others were made to wait so long that its caller gave up', async () => {
    const caller = sessionOf();
    await keys.createKey({ name: 'first' }, as(caller));
    const client = new pg.Client({ connectionString: bench.database.url });
    await client.connect();
    try {
      await client.query('begin');
      await client.query('select from keys.owners where user_id = $1 for update', [caller.userId]);
      const waiting = Array.from({ length: 5 }, (_, index) => keys.createKey({ name: `waiting ${index}` }, as(caller)));
      const late = keys.createKey({ name: 'given up' }, { ...as(caller), timeoutMs: 100 });
      expect(await reasonOf(late)).toBe(ErrorReason.DEADLINE_EXCEEDED);
      await client.query('commit');
      await Promise.all(waiting);
    } finally {
      await client.end();
    }
    // Its turn comes after that of the key that was given up.
    await keys.createKey({ name: 'last' }, as(caller));
    const names = (await keys.listKeys({}, as(caller))).keys.map(({ name }) => name);
    expect(names).not.toContain('given up');
    expect(names).toHaveLength(7);
  });

  test('counts expired and revoked keys, but not deleted ones', async () => {
    const user = as(sessionOf());
    const expiresAt = timestampFromMs(startMs + 1_000);
    for (let made = 0; made < 10; made++) await keys.createKey({ name: 'some', expiresAt }, user);
    clock.advance(1_000);
    expect(await reasonOf(keys.createKey({ name: 'more' }, user))).toBe(ErrorReason.KEY_QUOTA_EXCEEDED);
    const [first, second] = (await keys.listKeys({}, user)).keys;
    await keys.revokeKey({ keyId: first!.id }, operator);
    expect(await reasonOf(keys.createKey({ name: 'more' }, user))).toBe(ErrorReason.KEY_QUOTA_EXCEEDED);
    await keys.deleteKey({ keyId: second!.id }, user);
    expect(await reasonOf(keys.createKey({ name: 'more' }, user))).toBe('it succeeded');
  });

  test('is the organization’s, can be unlimited, and can return to the default', async () => {
    const caller = sessionOf();
    const { tenantId } = caller;
    const set = (quota: Parameters<typeof keys.setKeyQuota>[0]['quota']) =>
      keys.setKeyQuota({ tenantId, quota }, operator);
    await set({ quota: { case: 'keysPerUser', value: 1 } });
    await keys.createKey({ name: 'only' }, as(caller));
    expect(await reasonOf(keys.createKey({ name: 'more' }, as(caller)))).toBe(ErrorReason.KEY_QUOTA_EXCEEDED);
    // A teammate has a quota of their own.
    await keys.createKey({ name: 'only' }, as(sessionOf({ tenantId })));
    await set({ quota: { case: 'unlimited', value: true } });
    for (let made = 0; made < 11; made++) await keys.createKey({ name: 'many' }, as(caller));
    expect((await keys.getKeyQuota({ tenantId }, as(caller))).effectiveKeysPerUser).toBeUndefined();
    await set({ quota: { case: 'platformDefault', value: true } });
    expect((await keys.getKeyQuota({ tenantId }, as(caller))).effectiveKeysPerUser).toBe(10);
    expect((await bench.auditEvents(tenantId)).map(({ after }) => after.keys_per_user)).toEqual([
      1,
      'unlimited',
      'default',
    ]);
    expect(await reasonOf(set({ quota: { case: undefined } }))).toBe(ErrorReason.INVALID_REQUEST);
  });
});
