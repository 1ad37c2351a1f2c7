import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { KeyStatus } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { asService, Role } from '#shared/rpc/caller.ts';
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

const edge = asService('edge');
const operator = as(sessionOf({ operator: true }));

describe('uses', () => {
  test('add up over batches, a repeated batch counts once, and the time of last use never goes back', async () => {
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
    // Not that of a secret in its grace period, in whichever order they are stored.
    for (let time = 0; time < 3; time++) {
      await keys.rotateKey({ keyId: key!.id, gracePeriod: { seconds: 60n } }, user);
      expect((await principal())?.expiresAt).toBeUndefined();
    }
    await keys.revokeKey({ keyId: key!.id }, operator);
    expect(await principal()).toBeUndefined();
  });

  test('describe one organization’s keys, including ended and deleted ones', async () => {
    const caller = sessionOf();
    const { key } = await keys.createKey({ name: 'described' }, as(caller));
    const live = await keys.createKey({ name: 'live' }, as(caller));
    const foreign = await keys.createKey({ name: 'foreign' }, as(sessionOf()));
    const revoked = await keys.createKey({ name: 'revoked' }, as(caller));
    const expired = await keys.createKey({ name: 'expired', expiresAt: timestampFromMs(startMs + 1) }, as(caller));
    await keys.deleteKey({ keyId: key!.id }, as(caller));
    await keys.revokeKey({ keyId: revoked.key!.id }, operator);
    clock.advance(1);
    const keyIds = [key, live.key, revoked.key, expired.key, foreign.key].map((one) => one!.id);
    const answer = await keys.describeKeys(
      { tenantId: caller.tenantId, keyIds: [...keyIds, uuidv7()] },
      asService('usage'),
    );
    const { userId } = caller;
    expect(answer.keys.toSorted((a, b) => (a.keyId < b.keyId ? -1 : 1))).toMatchObject([
      { keyId: key!.id, userId, name: 'described', deleted: true, status: KeyStatus.UNSPECIFIED },
      { keyId: live.key!.id, userId, name: 'live', deleted: false, status: KeyStatus.ACTIVE },
      { keyId: revoked.key!.id, userId, name: 'revoked', deleted: false, status: KeyStatus.REVOKED },
      { keyId: expired.key!.id, userId, name: 'expired', deleted: false, status: KeyStatus.EXPIRED },
    ]);
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
    const revoked = await keys.createKey({ name: 'revoked', constraints }, as(sessionOf()));
    await keys.revokeKey({ keyId: revoked.key!.id }, operator);
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

  test('a role reported by Auth overrides an older token', async () => {
    const caller = sessionOf({ role: Role.OWNER });
    const { tenantId, userId } = caller;
    const { secret } = await keys.createKey({ name: 'before' }, as(caller));
    expect((await bench.authenticate(secret))?.role).toBe(Role.OWNER);
    const state = { tenantId, userId, role: Role.MEMBER, isActive: true, authVersion: 3n };
    await keys.refreshPrincipals({ users: [state] }, asService('auth'));
    await keys.createKey({ name: 'with the old token' }, as(caller));
    expect((await bench.authenticate(secret))?.role).toBe(Role.MEMBER);
  });

  test('a deactivated user creates no key', async () => {
    const caller = sessionOf();
    const { tenantId, userId } = caller;
    const state = { tenantId, userId, role: Role.MEMBER, isActive: false, authVersion: 1n };
    await keys.refreshPrincipals({ users: [state] }, asService('auth'));
    expect(await reasonOf(keys.createKey({ name: 'late' }, as(caller)))).toBe(ErrorReason.INVALID_TOKEN);
  });
});
