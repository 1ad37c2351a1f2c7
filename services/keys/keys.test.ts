import { fromBinary } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { AuditActorType, AuditRecordSchema } from '#gen/modelgateway/auth/v1/audit_pb.ts';
import { KeyStatus, KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { ManualClock } from '#shared/clock.ts';
import { openServiceDatabase, type ServiceDatabase } from '#shared/db/orm.ts';
import { patiently } from '#shared/db/patiently.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { keyDigest } from '#shared/key-secret.ts';
import { Role } from '#shared/rpc/caller.ts';
import {
  as,
  asService,
  sessionOf,
  silentLogger,
  startTestKeys,
  type TestKeys,
  testPeppers,
} from '../../test/support/keys.ts';
import { createTestDatabase, type TestDatabase } from '../../test/support/postgres.ts';
import { keepHouse } from './workers/housekeeping.ts';

const startMs = Date.parse('2026-06-01T12:00:00Z');
const clock = new ManualClock(startMs);
let database: TestDatabase;
let service: ServiceDatabase;
let started: TestKeys;
let keys: TestKeys['keys'];

beforeAll(async () => {
  database = await createTestDatabase();
  service = await openServiceDatabase({
    service: 'keys',
    connection: database.url,
    entities: [],
    logger: silentLogger,
  });
  started = await startTestKeys(database.url, { clock });
  keys = started.keys;
});
afterAll(async () => {
  await started[Symbol.asyncDispose]();
  await service.close();
  await database.drop();
});
beforeEach(() => clock.set(startMs));

const edge = asService('edge');
const operator = as(sessionOf({ operator: true }));
const digestsOf = (secret: string, peppers = testPeppers) =>
  peppers.map((pepper) => ({ pepperVersion: pepper.version, digest: keyDigest(secret, pepper) }));
const authenticate = async (secret: string) =>
  (await keys.authenticate({ digests: digestsOf(secret) }, edge)).principal;
const rows = async (text: string, values: unknown[] = []) => (await service.query({ text, values })).rows;

/** The reason of a failed call. */
const reasonOf = (call: Promise<unknown>) =>
  call.then(
    () => 'it succeeded',
    (error) => error.reason,
  );

async function auditEvents(targetId: string) {
  const all = await rows('select record from audit_outbox order by id');
  return all
    .map(({ record }) => fromBinary(AuditRecordSchema, record))
    .filter(({ target }) => target!.id === targetId)
    .map(({ type, tenantId, beforeJson, afterJson, actor }) => ({
      type,
      tenantId,
      actor: actor!.type,
      before: beforeJson === '' ? null : JSON.parse(beforeJson),
      after: afterJson === '' ? null : JSON.parse(afterJson),
    }));
}

describe('whose keys they are', () => {
  test('nobody but its user sees, changes or ends a key: not a teammate, not an owner, not a stranger', async () => {
    const user = sessionOf();
    const { key, secret } = await keys.createKey({ name: 'mine' }, as(user));
    const keyId = key!.id;
    const others = [
      sessionOf({ tenantId: user.tenantId }),
      sessionOf({ tenantId: user.tenantId, role: Role.OWNER }),
      sessionOf(),
      sessionOf({ userId: user.userId }),
    ];
    const before = await rows('select * from keys where id = $1', [keyId]);
    for (const other of others.map(as)) {
      expect((await keys.listKeys({}, other)).keys).toEqual([]);
      expect(await reasonOf(keys.getKey({ keyId }, other))).toBe(ErrorReason.NOT_FOUND);
      const updateMask = { paths: ['name'] };
      expect(await reasonOf(keys.updateKey({ keyId, updateMask, name: 'theirs' }, other))).toBe(ErrorReason.NOT_FOUND);
      expect(await reasonOf(keys.rotateKey({ keyId }, other))).toBe(ErrorReason.NOT_FOUND);
      expect(await reasonOf(keys.deleteKey({ keyId }, other))).toBe(ErrorReason.NOT_FOUND);
    }
    expect(await rows('select * from keys where id = $1', [keyId])).toEqual(before);
    expect((await authenticate(secret))?.keyId).toBe(keyId);
  });

  test('the operators RPCs refuse everybody else, owners included', async () => {
    const owner = as(sessionOf({ role: Role.OWNER }));
    const { key } = await keys.createKey({ name: 'owned' }, owner);
    const keyId = key!.id;
    const tenantId = key!.tenantId;
    const quota = { quota: { case: 'unlimited', value: true } } as const;
    for (const call of [
      keys.adminListKeys({}, owner),
      keys.revokeKey({ keyId }, owner),
      keys.setKeyRateLimits({ keyId }, owner),
      keys.setKeyQuota({ tenantId, quota }, owner),
    ]) {
      expect(await reasonOf(call)).toBe(ErrorReason.INSUFFICIENT_ROLE);
    }
    expect(await reasonOf(keys.getKeyQuota({ tenantId: uuidv7() }, owner))).toBe(ErrorReason.NOT_FOUND);
  });

  test('the RPCs of edges and services refuse users, and each other', async () => {
    const user = as(sessionOf({ role: Role.OWNER, operator: true }));
    const digests = digestsOf('sk-proj-any');
    for (const caller of [user, asService('jobs')]) {
      expect(await reasonOf(keys.authenticate({ digests }, caller))).toBe(ErrorReason.INSUFFICIENT_ROLE);
      expect(await reasonOf(keys.refreshPrincipals({}, caller))).toBe(ErrorReason.INSUFFICIENT_ROLE);
      expect(await reasonOf(Array.fromAsync(keys.watchKeys({ edgeId: uuidv7() }, caller)))).toBe(
        ErrorReason.INSUFFICIENT_ROLE,
      );
    }
    expect(await reasonOf(keys.getPrincipal({ keyId: uuidv7() }, user))).toBe(ErrorReason.INSUFFICIENT_ROLE);
    expect(await reasonOf(keys.describeKeys({ tenantId: uuidv7() }, user))).toBe(ErrorReason.INSUFFICIENT_ROLE);
    expect(await reasonOf(keys.createKey({ name: 'for a service' }, asService('jobs')))).toBe(
      ErrorReason.ENDPOINT_NOT_ALLOWED,
    );
  });
});

describe('the quota', () => {
  test('of 50 creations at 9 of 10 exactly one succeeds', async () => {
    const user = as(sessionOf());
    for (let made = 0; made < 9; made++) await keys.createKey({ name: `key ${made}` }, user);
    const reasons = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        // Whom the database kept waiting comes again.
        reasonOf(patiently(() => keys.createKey({ name: `race ${index}` }, user))),
      ),
    );
    expect(reasons.filter((reason) => reason === 'it succeeded')).toHaveLength(1);
    expect(reasons.filter((reason) => reason === ErrorReason.KEY_QUOTA_EXCEEDED)).toHaveLength(49);
    expect((await keys.listKeys({}, user)).page!.total).toBe(10n);
  });

  test('counts expired and revoked keys, and not deleted ones', async () => {
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

  test('is the organization’s, can be unlimited, and returns to the default', async () => {
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
    expect((await auditEvents(tenantId)).map(({ after }) => after.keys_per_user)).toEqual([1, 'unlimited', 'default']);
    expect(await reasonOf(set({ quota: { case: undefined } }))).toBe(ErrorReason.INVALID_REQUEST);
  });
});

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
    // The edge is told, so that it can say that the key expired.
    expect((await authenticate(secret))?.expiresAt).toEqual(expiresAt);
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
    const ends = async (secret: string) => (await authenticate(secret))?.expiresAt;
    expect(await ends(first)).toEqual(timestampFromMs(startMs + 60_000));
    expect(await ends(second.secret)).toEqual(timestampFromMs(startMs + 60_000));
    expect(await ends(third.secret)).toBeUndefined();
    const last = await rotate(0);
    for (const { secret } of [{ secret: first }, second, third]) expect(await authenticate(secret)).toBeUndefined();
    expect((await authenticate(last.secret))?.keyId).toBe(key!.id);
  });

  test('a graced secret never outlives the key', async () => {
    const user = as(sessionOf());
    const expiresAt = timestampFromMs(startMs + 10_000);
    const { key, secret } = await keys.createKey({ name: 'ending', expiresAt }, user);
    await keys.rotateKey({ keyId: key!.id, gracePeriod: { seconds: 3_600n } }, user);
    expect((await authenticate(secret))?.expiresAt).toEqual(expiresAt);
  });

  test('a secret of an earlier pepper goes on while that pepper is known', async () => {
    const user = as(sessionOf());
    const { key, secret } = await keys.createKey({ name: 'old pepper' }, user);
    const peppers = [{ version: 2, secret: 'another pepper for tests, also long' }, ...testPeppers];
    await using next = await startTestKeys(database.url, { clock, peppers });
    const found = await next.keys.authenticate({ digests: digestsOf(secret, peppers) }, edge);
    expect(found.principal?.keyId).toBe(key!.id);
    const made = await next.keys.createKey({ name: 'new pepper' }, user);
    expect((await next.keys.authenticate({ digests: digestsOf(made.secret, peppers) }, edge)).principal).toBeDefined();
    expect(await authenticate(made.secret)).toBeUndefined();
  });

  test('a digest answers under its own pepper’s version only', async () => {
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
      const dump = (await rows(`select string_agg(row::text, '') as dump from ${table} as row`))[0]!.dump;
      for (const issued of [secret, rotated.secret]) {
        expect(dump).not.toContain(issued);
        expect(dump).not.toContain(Buffer.from(issued).toString('hex'));
      }
    }
  });
});

describe('an Idempotency-Key', () => {
  test('is honoured for 24 h, each user their own, and then forgotten with its salt', async () => {
    const user = as(sessionOf());
    const request = { name: 'idempotent', idempotencyKey: 'same' };
    const first = await keys.createKey(request, user);
    const other = await keys.createKey(request, as(sessionOf()));
    expect(other.secret).not.toBe(first.secret);
    clock.advance(24 * 3_600_000 - 1);
    expect((await keys.createKey(request, user)).secret).toBe(first.secret);
    clock.advance(1);
    await keepHouse({ database: service, clock });
    expect(await rows('select from idempotency_keys')).toHaveLength(0);
    const second = await keys.createKey(request, user);
    expect(second.key!.id).not.toBe(first.key!.id);
  });

  test('answers a repeat even when the request would no longer be acceptable', async () => {
    const user = as(sessionOf());
    const request = { name: 'short', idempotencyKey: 'short', expiresAt: timestampFromMs(startMs + 1_000) };
    const first = await keys.createKey(request, user);
    clock.advance(2_000);
    expect((await keys.createKey(request, user)).secret).toBe(first.secret);
  });

  test('of a key that was deleted since says so', async () => {
    const user = as(sessionOf());
    const request = { name: 'gone', idempotencyKey: 'gone' };
    const { key } = await keys.createKey(request, user);
    await keys.deleteKey({ keyId: key!.id }, user);
    expect(await reasonOf(keys.createKey(request, user))).toBe(ErrorReason.CONFLICT);
  });
});

describe('scopes', () => {
  test('a member’s default management key goes without the breakdown, which they may ask for', async () => {
    const member = as(sessionOf());
    const admin = as(sessionOf({ role: Role.ADMIN }));
    const keyType = KeyType.MANAGEMENT;
    const scopesOf = async (call: ReturnType<typeof keys.createKey>) => (await call).key!.scopes;
    expect(await scopesOf(keys.createKey({ name: 'member', keyType }, member))).not.toContain('usage:read_breakdown');
    expect(await scopesOf(keys.createKey({ name: 'admin', keyType }, admin))).toContain('usage:read_breakdown');
    const asked = { name: 'asked', keyType, scopes: { scopes: ['usage:read_breakdown'] } };
    expect(await scopesOf(keys.createKey(asked, member))).toEqual(['usage:read_breakdown']);
  });
});

describe('audit events', () => {
  test('tell each change once, with what was before and after, and no secret', async () => {
    const caller = sessionOf();
    const user = as(caller);
    const { key, secret } = await keys.createKey({ name: 'audited', scopes: { scopes: ['models:list'] } }, user);
    const keyId = key!.id;
    const paths = ['name', 'scopes', 'spend_cap_nano_usd'];
    const change = { name: 'renamed', scopes: ['models:list', 'inference:chat'], spendCapNanoUsd: 100_000_000n };
    await keys.updateKey({ keyId, updateMask: { paths }, ...change }, user);
    // The same again changes nothing, and says nothing.
    await keys.updateKey({ keyId, updateMask: { paths }, ...change }, user);
    const rotated = await keys.rotateKey({ keyId }, user);
    await keys.revokeKey({ keyId, reason: 'leaked' }, operator);
    await keys.revokeKey({ keyId, reason: 'again' }, operator);
    await keys.deleteKey({ keyId }, user);
    const events = await auditEvents(keyId);
    expect(events.map(({ type }) => type)).toEqual([
      'api_key_created',
      'api_key_scope_updated',
      'api_key_updated',
      'api_key_rotated',
      'api_key_revoked',
      'api_key_deleted',
    ]);
    expect(events[1]).toMatchObject({
      tenantId: caller.tenantId,
      actor: AuditActorType.USER,
      before: { scopes: ['models:list'], spend_cap_usd: null },
      after: { scopes: ['models:list', 'inference:chat'], spend_cap_usd: 0.1 },
    });
    expect(events[2]).toMatchObject({ before: { name: 'audited' }, after: { name: 'renamed' } });
    expect(events[4]).toMatchObject({ actor: AuditActorType.OPERATOR, after: { reason: 'leaked' } });
    for (const issued of [secret, rotated.secret]) expect(JSON.stringify(events)).not.toContain(issued);
  });

  test('a change that fails leaves no event', async () => {
    const caller = sessionOf();
    const count = async () => (await rows('select count(*) from audit_outbox'))[0]!.count;
    const before = await count();
    expect(await reasonOf(keys.createKey({ name: 'x', scopes: { scopes: [] } }, as(caller)))).toBe(
      ErrorReason.INVALID_REQUEST,
    );
    expect(await count()).toBe(before);
  });
});

describe('uses', () => {
  test('add up over batches, a repeated batch counts once, and the last use never goes back', async () => {
    const user = as(sessionOf());
    const { key } = await keys.createKey({ name: 'used' }, user);
    const gone = await keys.createKey({ name: 'gone' }, user);
    await keys.deleteKey({ keyId: gone.key!.id }, user);
    const { tenantId } = key!;
    const use = (keyId: string, atMs: number, count: bigint) => ({
      tenantId,
      keyId,
      lastUsedAt: timestampFromMs(atMs),
      count,
    });
    const batch = {
      batchId: uuidv7(),
      uses: [use(key!.id, startMs + 5_000, 3n), use(gone.key!.id, startMs, 1n), use(uuidv7(), startMs, 1n)],
    };
    await keys.recordKeyUse(batch, edge);
    await Promise.all([keys.recordKeyUse(batch, edge), keys.recordKeyUse(batch, edge)]);
    await keys.recordKeyUse({ batchId: uuidv7(), uses: [use(key!.id, startMs + 1_000, 2n)] }, edge);
    const { usageCount, lastUsedAt } = (await keys.getKey({ keyId: key!.id }, user)).key!;
    expect(usageCount).toBe(5n);
    expect(lastUsedAt).toEqual(timestampFromMs(startMs + 5_000));
  });
});

describe('other services', () => {
  test('get a key’s principal without its secret until it ends', async () => {
    const user = as(sessionOf());
    const { key } = await keys.createKey({ name: 'job' }, user);
    const principal = async () => (await keys.getPrincipal({ keyId: key!.id }, asService('jobs'))).principal;
    expect((await principal())?.userId).toBe(key!.userId);
    await keys.rotateKey({ keyId: key!.id, gracePeriod: { seconds: 60n } }, user);
    expect((await principal())?.expiresAt).toBeUndefined();
    await keys.revokeKey({ keyId: key!.id }, operator);
    expect(await principal()).toBeUndefined();
  });

  test('describe one organization’s keys, deleted ones too', async () => {
    const caller = sessionOf();
    const { key } = await keys.createKey({ name: 'described' }, as(caller));
    const foreign = await keys.createKey({ name: 'foreign' }, as(sessionOf()));
    await keys.deleteKey({ keyId: key!.id }, as(caller));
    const answer = await keys.describeKeys(
      { tenantId: caller.tenantId, keyIds: [key!.id, foreign.key!.id, uuidv7()] },
      asService('usage'),
    );
    expect(answer.keys).toMatchObject([{ keyId: key!.id, userId: caller.userId, name: 'described' }]);
  });

  test('find the users whose live keys name a model, page by page', async () => {
    const model = `model-${uuidv7()}`;
    const constraints = { modelAllowlist: [model, 'another'] };
    const users = Array.from({ length: 3 }, () => sessionOf()).sort((a, b) => (a.userId < b.userId ? -1 : 1));
    for (const user of users) {
      await keys.createKey({ name: 'one', constraints }, as(user));
      await keys.createKey({ name: 'two', constraints }, as(user));
    }
    const deleted = sessionOf();
    const { key } = await keys.createKey({ name: 'deleted', constraints }, as(deleted));
    await keys.deleteKey({ keyId: key!.id }, as(deleted));
    const expired = { name: 'expired', constraints, expiresAt: timestampFromMs(startMs + 1) };
    await keys.createKey(expired, as(sessionOf()));
    clock.advance(1);
    const page = async (afterUserId: string) =>
      (await keys.listModelAllowlistUsers({ model, afterUserId, limit: 2 }, asService('models'))).users;
    const first = await page('');
    const second = await page(first.at(-1)!.userId);
    expect([...first, ...second].map(({ userId }) => userId)).toEqual(users.map(({ userId }) => userId));
    expect(await page(second.at(-1)!.userId)).toEqual([]);
  });

  test('a role that Auth told outlives an older token', async () => {
    const caller = sessionOf({ role: Role.OWNER });
    const { tenantId, userId } = caller;
    const { secret } = await keys.createKey({ name: 'before' }, as(caller));
    expect((await authenticate(secret))?.role).toBe(Role.OWNER);
    const state = { tenantId, userId, role: Role.MEMBER, isActive: true, authVersion: 3n };
    await keys.refreshPrincipals({ users: [state] }, asService('auth'));
    await keys.createKey({ name: 'with the old token' }, as(caller));
    expect((await authenticate(secret))?.role).toBe(Role.MEMBER);
  });

  test('a deactivated user makes no key', async () => {
    const caller = sessionOf();
    const { tenantId, userId } = caller;
    const state = { tenantId, userId, role: Role.MEMBER, isActive: false, authVersion: 1n };
    await keys.refreshPrincipals({ users: [state] }, asService('auth'));
    expect(await reasonOf(keys.createKey({ name: 'late' }, as(caller)))).toBe(ErrorReason.INVALID_TOKEN);
  });
});
