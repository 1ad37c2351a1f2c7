import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { asService, Role } from '#shared/rpc/caller.ts';
import { as, digestsOf, type KeysBench, reasonOf, sessionOf, startKeysBench } from '../../test/support/keys.ts';

let bench: KeysBench;
let keys: KeysBench['keys'];
beforeAll(async () => {
  bench = await startKeysBench();
  ({ keys } = bench);
});
afterAll(() => bench[Symbol.asyncDispose]());

describe('whose keys they are', () => {
  test('only its user sees, changes or ends a key: no teammate, owner or stranger does', async () => {
    const user = sessionOf();
    const { key, secret } = await keys.createKey({ name: 'mine' }, as(user));
    const keyId = key!.id;
    const others = [
      sessionOf({ tenantId: user.tenantId }),
      sessionOf({ tenantId: user.tenantId, role: Role.OWNER }),
      sessionOf(),
      sessionOf({ userId: user.userId }),
    ];
    const before = await bench.rows('select * from keys where id = $1', [keyId]);
    for (const other of others.map(as)) {
      expect((await keys.listKeys({}, other)).keys).toEqual([]);
      expect(await reasonOf(keys.getKey({ keyId }, other))).toBe(ErrorReason.NOT_FOUND);
      const updateMask = { paths: ['name'] };
      expect(await reasonOf(keys.updateKey({ keyId, updateMask, name: 'theirs' }, other))).toBe(ErrorReason.NOT_FOUND);
      expect(await reasonOf(keys.rotateKey({ keyId }, other))).toBe(ErrorReason.NOT_FOUND);
      expect(await reasonOf(keys.deleteKey({ keyId }, other))).toBe(ErrorReason.NOT_FOUND);
    }
    expect(await bench.rows('select * from keys where id = $1', [keyId])).toEqual(before);
    expect((await bench.authenticate(secret))?.keyId).toBe(keyId);
  });

  test("the operators' RPCs refuse everyone else, owners included", async () => {
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

describe('scopes', () => {
  test('a member’s default management key lacks the breakdown scope, which they may still ask for; asked for twice, it counts once', async () => {
    const member = as(sessionOf());
    const admin = as(sessionOf({ role: Role.ADMIN }));
    const keyType = KeyType.MANAGEMENT;
    const scopesOf = async (call: ReturnType<typeof keys.createKey>) => (await call).key!.scopes;
    expect(await scopesOf(keys.createKey({ name: 'member', keyType }, member))).not.toContain('usage:read_breakdown');
    expect(await scopesOf(keys.createKey({ name: 'admin', keyType }, admin))).toContain('usage:read_breakdown');
    const asked = { name: 'asked', keyType, scopes: { scopes: ['usage:read_breakdown', 'usage:read_breakdown'] } };
    expect(await scopesOf(keys.createKey(asked, member))).toEqual(['usage:read_breakdown']);
  });
});
