import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { createRpcClientTransport } from '#shared/rpc/client-transport.ts';
import { rpcService } from '#shared/rpc/rpc-service.ts';
import { startTestEdge, type TestEdge } from '../support/edge-keys.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { as, sessionOf, startTestKeys, type TestKeys } from '../support/keys.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { serveRpc, testTokens } from '../support/rpc-carriers.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { waitFor } from '../support/wait-for.ts';

/** An edge that reaches Keys over the network, through a proxy that can misbehave. */
let closers: AsyncDisposableStack;
let keysProcess: TestKeys;
let proxy: FaultProxy;
let edge: TestEdge;

beforeEach(async () => {
  closers = new AsyncDisposableStack();
  const database = closers.use(await createTestDatabase());
  keysProcess = closers.use(await startTestKeys(database.url));
  const service = rpcService(KeysService, keysProcess.implementation, { callers: ['edge'] });
  const server = closers.use(await serveRpc([service]));
  proxy = closers.use(await startFaultProxy({ target: { host: '127.0.0.1', port: Number(new URL(server.url).port) } }));
  const transport = createRpcClientTransport({ url: `http://127.0.0.1:${proxy.port}`, tokens: testTokens('edge') });
  closers.defer(async () => transport.close());
  edge = closers.use(await startTestEdge(createRpcClient(KeysService, transport)));
});

afterEach(async () => {
  // Otherwise the edge's last report of uses would wait for its deadline.
  await proxy.set({ kind: 'pass' });
  proxy.resetAll();
  await closers.disposeAsync();
});

describe('while Keys is out of reach', () => {
  test('a cached key works for its lease at most, and then meets 503, never 401', async () => {
    const user = as(sessionOf());
    const { secret } = await keysProcess.keys.createKey({ name: 'cached' }, user);
    expect(await edge.decide(secret)).toBe('accepted');

    await proxy.set({ kind: 'blackhole' });
    using sinceCut = startStopwatch();
    let lastAcceptedMs = 0;
    const seen = new Set<string>();
    await waitFor(
      async () => {
        const askedMs = sinceCut.ms;
        // An answer that waits for Keys is not an acceptance.
        const decision = edge.isLive ? await edge.decide(secret) : 'lapsed';
        seen.add(decision);
        if (decision === 'accepted') lastAcceptedMs = askedMs;
        return decision === 'lapsed';
      },
      { description: 'the lease to lapse' },
    );
    expect(lastAcceptedMs).toBeLessThan(2_000);
    expect([...seen]).toEqual(['accepted', 'lapsed']);
    expect(await edge.decide(secret)).toBe('OVERLOADED');
    expect(await edge.decide('sk-proj-mistyped')).toBe('INVALID_API_KEY');

    await proxy.set({ kind: 'pass' });
    proxy.resetAll();
    await waitFor(() => edge.isLive, { description: 'the feed to come back', timeoutMs: 15_000 });
    expect(await edge.decide(secret)).toBe('accepted');
  });

  test('a deletion is answered only when the cut-off edge has stopped accepting the key, within the lease', async () => {
    const user = as(sessionOf());
    const { key, secret } = await keysProcess.keys.createKey({ name: 'partitioned' }, user);
    expect(await edge.decide(secret)).toBe('accepted');

    await proxy.set({ kind: 'blackhole' });
    using sinceCut = startStopwatch();
    let answered = false;
    let acceptedAfter = 0;
    let lastAcceptedMs = 0;
    const deletion = keysProcess.keys.deleteKey({ keyId: key!.id }, user).then(() => {
      answered = true;
    });
    while (!answered || edge.isLive) {
      const wasAnswered = answered;
      const askedMs = sinceCut.ms;
      if (edge.isLive && (await edge.decide(secret)) === 'accepted') {
        lastAcceptedMs = askedMs;
        if (wasAnswered) acceptedAfter += 1;
      }
      await new Promise(setImmediate);
    }
    await deletion;
    expect(acceptedAfter).toBe(0);
    expect(lastAcceptedMs).toBeGreaterThan(0);
    expect(lastAcceptedMs).toBeLessThan(2_000);
    expect(await edge.decide(secret)).toBe('OVERLOADED');
  });

  test('a feed that is silent in only one direction ends the lease too', async () => {
    const user = as(sessionOf());
    const { key, secret } = await keysProcess.keys.createKey({ name: 'one way' }, user);
    expect(await edge.decide(secret)).toBe('accepted');
    await proxy.set({ kind: 'blackhole', direction: 'to-client' });
    using sinceCut = startStopwatch();
    await keysProcess.keys.deleteKey({ keyId: key!.id }, user);
    expect(edge.isLive).toBe(false);
    // One lease of two seconds, renewed at most by what was in flight when the feed fell silent, plus other work of the machine.
    expect(sinceCut.ms).toBeLessThan(4_000);
  });
});
