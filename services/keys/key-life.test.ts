import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { KeyStatus } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { asService } from '#shared/rpc/caller.ts';
import {
  as,
  digestsOf,
  type KeysBench,
  reasonOf,
  sessionOf,
  startKeysBench,
  startTestKeys,
  testPeppers,
} from '../../test/support/keys.ts';
import { removeOutdated } from './workers/housekeeping.ts';

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

const edge = asService('edge');

describe('a key’s life', () => {
  test('it expires at the very millisecond, and stays in the list', async () => {
    const user = as(sessionOf());
    const expiresAt = timestampFromMs(startMs + 5_000);
    const { key, secret } = await keys.createKey({ name: 'short' }, user);
    await keys.updateKey({ keyId: key!.id, updateMask: { paths: ['expires_at'] }, expiresAt }, user);
    const status = async () => (await keys.getKey({ keyId: key!.id }, user)).key!.status;
    clock.set(startMs + 4_999);
    expect(await status()).toBe(KeyStatus.ACTIVE);
    clock.set(startMs + 5_000);
    expect(await status()).toBe(KeyStatus.EXPIRED);
    expect((await keys.listKeys({ status: KeyStatus.EXPIRED }, user)).keys).toHaveLength(1);
    expect((await keys.listKeys({ status: KeyStatus.ACTIVE }, user)).keys).toHaveLength(0);
    // The edge is told, so that it can say that the key has expired.
    expect((await bench.authenticate(secret))?.expiresAt).toEqual(expiresAt);
  });

  test('an expiry at this very moment is not in the future', async () => {
    const expiresAt = timestampFromMs(startMs);
    expect(await reasonOf(keys.createKey({ name: 'late', expiresAt }, as(sessionOf())))).toBe(
      ErrorReason.INVALID_REQUEST,
    );
  });

  test('rotation lets no earlier secret outlive the last grace period', async () => {
    const user = as(sessionOf());
    const { key, secret: first } = await keys.createKey({ name: 'rotating' }, user);
    const rotate = (seconds: number) =>
      keys.rotateKey({ keyId: key!.id, gracePeriod: { seconds: BigInt(seconds) } }, user);
    const second = await rotate(3_600);
    expect(second.previousSecretExpiresAt).toEqual(timestampFromMs(startMs + 3_600_000));
    const third = await rotate(60);
    const ends = async (secret: string) => (await bench.authenticate(secret))?.expiresAt;
    expect(await ends(first)).toEqual(timestampFromMs(startMs + 60_000));
    expect(await ends(second.secret)).toEqual(timestampFromMs(startMs + 60_000));
    expect(await ends(third.secret)).toBeUndefined();
    const last = await rotate(0);
    for (const { secret } of [{ secret: first }, second, third])
      expect(await bench.authenticate(secret)).toBeUndefined();
    expect((await bench.authenticate(last.secret))?.keyId).toBe(key!.id);
  });

  test('it has at most five secrets at a time: a sixth waits until one ends, or ends them all', async () => {
    const user = as(sessionOf());
    const { key, secret: first } = await keys.createKey({ name: 'often rotated' }, user);
    const rotate = (seconds: number, idempotencyKey = '') =>
      keys.rotateKey({ keyId: key!.id, gracePeriod: { seconds: BigInt(seconds) }, idempotencyKey }, user);
    await rotate(60);
    for (const seconds of [3_600, 3_601]) await rotate(seconds);
    const fifth = await rotate(3_602, 'fifth');
    // A repeat does not ask for another one.
    expect((await rotate(3_602, 'fifth')).secret).toBe(fifth.secret);
    const refused = await rotate(3_603).catch((error) => error);
    expect([refused.reason, refused.message]).toEqual([
      ErrorReason.CONFLICT,
      expect.stringContaining('2026-06-01T12:01:00.000Z'),
    ]);
    clock.advance(60_000);
    await rotate(3_604);
    // Ended secrets are removed by the next rotation.
    expect(await bench.rows('select from digests where key_id = $1', [key!.id])).toHaveLength(5);
    expect(await bench.authenticate(first)).toBeUndefined();
    const last = await rotate(0);
    expect(await bench.rows('select from digests where key_id = $1', [key!.id])).toHaveLength(1);
    expect((await bench.authenticate(last.secret))?.keyId).toBe(key!.id);
  });

  test('a secret that ended a day ago is forgotten, a thousand at a time; until then its holder is told that it expired', async () => {
    const user = as(sessionOf());
    const { key, secret } = await keys.createKey({ name: 'rotated once' }, user);
    const rotated = await keys.rotateKey({ keyId: key!.id, gracePeriod: { seconds: 60n } }, user);
    // As many as a key could collect in earlier versions.
    await bench.service.query({
      text: `insert into digests select tenant_id, key_id, sha256(number::text::bytea), 1, created_at, expires_at
        from digests, generate_series(1, 2500) as number where key_id = $1 and expires_at is not null`,
      values: [key!.id],
    });
    const digests = async () => (await bench.rows('select from digests where key_id = $1', [key!.id])).length;
    const dayMs = 24 * 3_600_000;
    clock.advance(60_000 + dayMs - 1);
    await removeOutdated({ database: bench.service, clock });
    expect(await digests()).toBe(2_502);
    expect((await bench.authenticate(secret))?.expiresAt).toEqual(timestampFromMs(startMs + 60_000));
    clock.advance(1);
    await removeOutdated({ database: bench.service, clock });
    expect(await digests()).toBe(1);
    expect(await bench.authenticate(secret)).toBeUndefined();
    expect((await bench.authenticate(rotated.secret))?.keyId).toBe(key!.id);
  });

  test('a secret in its grace period never outlives the key, and nobody is told so', async () => {
    const user = as(sessionOf());
    const expiresAt = timestampFromMs(startMs + 10_000);
    const { key, secret } = await keys.createKey({ name: 'ending', expiresAt }, user);
    const rotated = await keys.rotateKey({ keyId: key!.id, gracePeriod: { seconds: 3_600n } }, user);
    expect((await bench.authenticate(secret))?.expiresAt).toEqual(expiresAt);
    expect(rotated.previousSecretExpiresAt).toEqual(expiresAt);
  });

  test('a secret under an earlier pepper works while that pepper is known', async () => {
    const user = as(sessionOf());
    const { key, secret } = await keys.createKey({ name: 'old pepper' }, user);
    const peppers = [{ version: 2, secret: 'another pepper for tests, also long' }, ...testPeppers];
    await using next = await startTestKeys(bench.database.url, { clock, peppers });
    const found = await next.keys.authenticate({ digests: digestsOf(secret, peppers) }, edge);
    expect(found.principal?.keyId).toBe(key!.id);
    const made = await next.keys.createKey({ name: 'new pepper' }, user);
    expect((await next.keys.authenticate({ digests: digestsOf(made.secret, peppers) }, edge)).principal).toBeDefined();
    expect(await bench.authenticate(made.secret)).toBeUndefined();
  });

  test('a digest only matches under its own pepper’s version', async () => {
    const { secret } = await keys.createKey({ name: 'versioned' }, as(sessionOf()));
    const digests = digestsOf(secret).map((digest) => ({ ...digest, pepperVersion: 9 }));
    expect((await keys.authenticate({ digests }, edge)).principal).toBeUndefined();
  });

  test('the database never holds a secret', async () => {
    const user = as(sessionOf());
    const { key, secret } = await keys.createKey({ name: 'secret', idempotencyKey: 'i1' }, user);
    const rotated = await keys.rotateKey({ keyId: key!.id, idempotencyKey: 'i2' }, user);
    const tables = ['keys', 'digests', 'idempotency_keys', 'changes', 'audit_outbox', 'owners'];
    for (const table of tables) {
      const dump = (await bench.rows(`select string_agg(row::text, '') as dump from ${table} as row`))[0]!.dump;
      for (const issued of [secret, rotated.secret]) {
        expect(dump).not.toContain(issued);
        expect(dump).not.toContain(Buffer.from(issued).toString('hex'));
      }
    }
  });
});

describe('an Idempotency-Key', () => {
  test('is honoured for 24 h, separately for each user, and then forgotten with its salt', async () => {
    const user = as(sessionOf());
    const request = { name: 'idempotent', idempotencyKey: 'same' };
    const first = await keys.createKey(request, user);
    const other = await keys.createKey(request, as(sessionOf()));
    expect(other.secret).not.toBe(first.secret);
    clock.advance(24 * 3_600_000 - 1);
    expect((await keys.createKey(request, user)).secret).toBe(first.secret);
    clock.advance(1);
    await removeOutdated({ database: bench.service, clock });
    expect(await bench.rows('select from idempotency_keys')).toHaveLength(0);
    const second = await keys.createKey(request, user);
    expect(second.key!.id).not.toBe(first.key!.id);
  });

  test("forgets others' expired ones a thousand at a time, so that no request waits for all of them", async () => {
    const user = sessionOf();
    const request = { name: 'again', idempotencyKey: 'again' };
    const first = await keys.createKey(request, as(user));
    const dayMs = 24 * 3_600_000;
    await bench.service.query({
      text: `insert into idempotency_keys select gen_random_uuid(), 'old', ''::bytea, ''::bytea, $1
        from generate_series(1, 3500)`,
      values: [new Date(startMs - dayMs)],
    });
    const expired = async () =>
      (await bench.rows('select from idempotency_keys where created_at <= $1', [new Date(clock.now() - dayMs)])).length;
    await keys.createKey({ name: 'another', idempotencyKey: 'another' }, as(user));
    expect(await expired()).toBe(2_500);

    // The caller's own, which still exists after older ones, gives way to a new request.
    clock.advance(dayMs);
    const second = await keys.createKey(request, as(user));
    expect(second.key!.id).not.toBe(first.key!.id);
    expect((await keys.createKey(request, as(user))).secret).toBe(second.secret);

    const left = await expired();
    await removeOutdated({ database: bench.service, clock }, AbortSignal.abort());
    expect(await expired(), 'a process that stops leaves them to the next').toBe(left);
    await removeOutdated({ database: bench.service, clock });
    expect(await expired()).toBe(0);
    expect((await keys.createKey(request, as(user))).secret).toBe(second.secret);
  });

  test('answers a repeat even if the request would no longer be acceptable', async () => {
    const user = as(sessionOf());
    const request = { name: 'short', idempotencyKey: 'short', expiresAt: timestampFromMs(startMs + 1_000) };
    const first = await keys.createKey(request, user);
    clock.advance(2_000);
    expect((await keys.createKey(request, user)).secret).toBe(first.secret);
  });

  test('of a secret that has since been rotated or revoked says so, and never returns one that no longer works', async () => {
    const user = as(sessionOf());
    const create = () => keys.createKey({ name: 'rotated', idempotencyKey: 'first' }, user);
    const { key, secret } = await create();
    const keyId = key!.id;
    const rotate = () => keys.rotateKey({ keyId, gracePeriod: { seconds: 60n }, idempotencyKey: 'second' }, user);
    const rotated = await rotate();
    expect((await create()).secret).toBe(secret);
    clock.advance(60_000);
    expect(await reasonOf(create())).toBe(ErrorReason.CONFLICT);
    expect((await rotate()).secret).toBe(rotated.secret);
    await keys.revokeKey({ keyId }, as(sessionOf({ operator: true })));
    expect(await reasonOf(rotate())).toBe(ErrorReason.CONFLICT);
  });

  test('of a key that has since been deleted says so', async () => {
    const user = as(sessionOf());
    const request = { name: 'gone', idempotencyKey: 'gone' };
    const { key } = await keys.createKey(request, user);
    await keys.deleteKey({ keyId: key!.id }, user);
    expect(await reasonOf(keys.createKey(request, user))).toBe(ErrorReason.CONFLICT);
  });
});
