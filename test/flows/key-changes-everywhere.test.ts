import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { asService, Role } from '#shared/rpc/caller.ts';
import { startTestEdge, type TestEdge } from '../support/edge-keys.ts';
import { as, sessionOf, startTestKeys, type TestKeys } from '../support/keys.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { waitFor } from '../support/wait-for.ts';

/** Three edges and two Keys processes on one database. */
let database: TestDatabase;
let services: TestKeys[];
let edges: TestEdge[];

beforeAll(async () => {
  database = await createTestDatabase();
  services = [await startTestKeys(database.url), await startTestKeys(database.url)];
  const [one, other] = services as [TestKeys, TestKeys];
  edges = await Promise.all([startTestEdge(one.keys), startTestEdge(one.keys), startTestEdge(other.keys)]);
});

afterAll(async () => {
  await Promise.all(edges.map((edge) => edge.close()));
  await Promise.all(services.map((service) => service[Symbol.asyncDispose]()));
  await database.drop();
});

const decideEverywhere = (secret: string) => Promise.all(edges.map((edge) => edge.decide(secret)));
const accepted = ['accepted', 'accepted', 'accepted'];
const refused = ['INVALID_API_KEY', 'INVALID_API_KEY', 'INVALID_API_KEY'];

/** Keeps asking every edge for a secret until told to stop; returns how often it was accepted after `ended` was set. */
function hammer(secret: string) {
  const state = { ended: false, acceptedAfter: 0, acceptedBefore: 0 };
  let stopped = false;
  const loops = edges.map(async (edge) => {
    while (!stopped) {
      const afterEnd = state.ended;
      const decision = await edge.decide(secret);
      if (decision === 'accepted') {
        if (afterEnd) state.acceptedAfter += 1;
        else state.acceptedBefore += 1;
      }
      await new Promise(setImmediate);
    }
  });
  return {
    state,
    stop: async () => {
      stopped = true;
      await Promise.all(loops);
    },
  };
}

describe('once a change is answered, every edge decides by it', () => {
  test('a deleted key is refused on every edge, under load', async () => {
    const user = as(sessionOf());
    for (let round = 0; round < 5; round++) {
      const { key, secret } = await services[0]!.keys.createKey({ name: `round ${round}` }, user);
      expect(await decideEverywhere(secret)).toEqual(accepted);
      const load = hammer(secret);
      await services[round % 2]!.keys.deleteKey({ keyId: key!.id }, user);
      load.state.ended = true;
      expect(await decideEverywhere(secret)).toEqual(refused);
      await load.stop();
      expect(load.state.acceptedAfter).toBe(0);
    }
  });

  test('live edges are told of a deletion, which does not wait for their leases to end', async () => {
    const user = as(sessionOf());
    const { key, secret } = await services[0]!.keys.createKey({ name: 'quick' }, user);
    await decideEverywhere(secret);
    using watch = startStopwatch();
    await services[0]!.keys.deleteKey({ keyId: key!.id }, user);
    // The lease is 2 s.
    expect(watch.ms).toBeLessThan(1_500);
  });

  test('a revoked key is refused on every edge, and its open connections are told', async () => {
    const user = as(sessionOf());
    const { key, secret } = await services[0]!.keys.createKey({ name: 'revoked' }, user);
    await decideEverywhere(secret);
    let closed = 0;
    for (const edge of edges) edge.onRevoked(await edge.authenticate(secret), () => (closed += 1));
    const operator = as(sessionOf({ operator: true }));
    await services[1]!.keys.revokeKey({ keyId: key!.id, reason: 'leaked' }, operator);
    expect(await decideEverywhere(secret)).toEqual(refused);
    expect(closed).toBe(3);
  });

  test('a connection ends when the grace period of its own secret is over, not with another secret of the key', async () => {
    const user = as(sessionOf());
    const { key, secret } = await services[0]!.keys.createKey({ name: 'graced' }, user);
    const told: string[] = [];
    const [edge] = edges;
    edge!.onRevoked(await edge!.authenticate(secret), () => told.push('old'));
    const graced = await services[0]!.keys.rotateKey({ keyId: key!.id, gracePeriod: { seconds: 2n } }, user);
    edge!.onRevoked(await edge!.authenticate(graced.secret), () => told.push('new'));
    // Reports both secrets.
    await services[1]!.keys.updateKey({ keyId: key!.id, updateMask: { paths: ['name'] }, name: 'renamed' }, user);
    await waitFor(() => told.length > 0, { description: 'the end of the grace period' });
    expect(told).toEqual(['old']);
    expect(await edge!.decide(secret)).toBe('EXPIRED_API_KEY');
    await services[1]!.keys.rotateKey({ keyId: key!.id }, user);
    expect(told).toEqual(['old', 'new']);
  });

  test('a connection opened while its key is revoked is told all the same', async () => {
    const user = as(sessionOf());
    const { key, secret } = await services[0]!.keys.createKey({ name: 'opening' }, user);
    const [edge] = edges;
    const principal = await edge!.authenticate(secret);
    await services[1]!.keys.deleteKey({ keyId: key!.id }, user);
    await new Promise<void>((resolve) => edge!.onRevoked(principal, () => resolve()));
  });

  test('a narrowed address list applies at every edge', async () => {
    const user = as(sessionOf());
    const { key, secret } = await services[0]!.keys.createKey({ name: 'narrowed' }, user);
    await decideEverywhere(secret);
    const updateMask = { paths: ['ip_allowlist', 'scopes'] };
    await services[1]!.keys.updateKey(
      { keyId: key!.id, updateMask, ipAllowlist: ['10.0.0.0/8'], scopes: ['models:list'] },
      user,
    );
    for (const edge of edges) {
      // At once: the change was received, and the key not just forgotten.
      const principal = edge.authenticate(secret);
      if (principal instanceof Promise) throw new Error('the edge had to ask');
      expect(principal.allowsAddress?.('10.1.2.3')).toBe(true);
      expect(principal.allowsAddress?.('192.0.2.1')).toBe(false);
    }
  });

  test('a rotated secret ends at once without a grace period, and with one when that is over', async () => {
    const user = as(sessionOf());
    const { key, secret } = await services[0]!.keys.createKey({ name: 'rotated' }, user);
    await decideEverywhere(secret);
    const graced = await services[0]!.keys.rotateKey({ keyId: key!.id, gracePeriod: { seconds: 60n } }, user);
    expect(await decideEverywhere(secret)).toEqual(accepted);
    expect(await decideEverywhere(graced.secret)).toEqual(accepted);
    for (const edge of edges) {
      expect((await edge.authenticate(secret)).expiresAtMs).toBeLessThan(Date.now() + 61_000);
      expect((await edge.authenticate(graced.secret)).expiresAtMs).toBe(Number.POSITIVE_INFINITY);
    }
    const ended = await services[1]!.keys.rotateKey({ keyId: key!.id }, user);
    expect(await decideEverywhere(secret)).toEqual(refused);
    expect(await decideEverywhere(graced.secret)).toEqual(refused);
    expect(await decideEverywhere(ended.secret)).toEqual(accepted);
  });

  test('an expired secret removed by a further rotation is refused everywhere, and the others still work', async () => {
    const user = as(sessionOf());
    const { key, secret } = await services[0]!.keys.createKey({ name: 'rotated daily' }, user);
    await decideEverywhere(secret);
    const rotate = (seconds: bigint) => services[0]!.keys.rotateKey({ keyId: key!.id, gracePeriod: { seconds } }, user);
    const second = await rotate(1n);
    await waitFor(async () => (await edges[0]!.decide(secret)) === 'EXPIRED_API_KEY', {
      description: 'the end of the grace period',
    });
    const third = await rotate(60n);
    expect(await decideEverywhere(secret)).toEqual(refused);
    expect(await decideEverywhere(second.secret)).toEqual(accepted);
    expect(await decideEverywhere(third.secret)).toEqual(accepted);
  });

  test('a suspended organization and a deactivated user are known everywhere, and so is their return', async () => {
    const caller = sessionOf();
    const { tenantId, userId } = caller;
    const { secret } = await services[0]!.keys.createKey({ name: 'theirs' }, as(caller));
    await decideEverywhere(secret);
    const refresh = (tenant: { suspended: boolean; authVersion: bigint }) =>
      services[1]!.keys.refreshPrincipals({ tenants: [{ tenantId, ...tenant }] }, asService('auth'));
    const suspendedEverywhere = async () =>
      Promise.all(edges.map(async (edge) => (await edge.authenticate(secret)).tenantSuspended));

    await refresh({ suspended: true, authVersion: 5n });
    expect(await suspendedEverywhere()).toEqual([true, true, true]);
    // Older news changes nothing.
    await refresh({ suspended: false, authVersion: 4n });
    expect(await suspendedEverywhere()).toEqual([true, true, true]);
    await refresh({ suspended: false, authVersion: 6n });
    expect(await suspendedEverywhere()).toEqual([false, false, false]);

    const setUser = (state: { isActive: boolean; role: Role; authVersion: bigint }) =>
      services[0]!.keys.refreshPrincipals({ users: [{ tenantId, userId, ...state }] }, asService('auth'));
    await setUser({ isActive: true, role: Role.ADMIN, authVersion: 7n });
    for (const edge of edges) expect((await edge.authenticate(secret)).role).toBe(Role.ADMIN);
    await setUser({ isActive: false, role: Role.ADMIN, authVersion: 8n });
    expect(await decideEverywhere(secret)).toEqual(refused);
    await setUser({ isActive: true, role: Role.MEMBER, authVersion: 9n });
    expect(await decideEverywhere(secret)).toEqual(accepted);
  });
});
