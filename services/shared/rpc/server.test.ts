import { once } from 'node:events';
import { connect, constants } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import type { HandlerContext } from '@connectrpc/connect';
import { describe, expect, test, vi } from 'vitest';
import { Health, HealthCheckResponse_ServingStatus as Status } from '#gen/grpc/health/v1/health_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { freePort, hasIpv6 } from '../../../test/support/free-port.ts';
import {
  aborted,
  asCaller,
  caller,
  expectSilentConsole,
  invocation,
  keyId,
  patience,
  serveRpc,
  testServices,
  transportTo,
} from '../../../test/support/rpc-carriers.ts';
import { bothRefused, severalAddresses, useSeveralAddresses } from '../../../test/support/several-addresses.ts';
import { ErrorReason } from '../errors.ts';
import { createRpcClient } from './client.ts';

expectSilentConsole();

describe('health', () => {
  test('is available without a token and follows what was set', async () => {
    await using port = await serveRpc(testServices({}));
    using transport = transportTo(port.url);
    const health = createRpcClient(Health, transport);
    const keys = KeysService.typeName;
    expect((await health.check({})).status).toBe(Status.SERVING);
    expect((await health.check({ service: keys })).status).toBe(Status.SERVING);
    port.server.health.set(keys, false);
    expect((await health.check({ service: keys })).status).toBe(Status.NOT_SERVING);
    expect((await health.list({})).statuses[keys]?.status).toBe(Status.NOT_SERVING);
    await expect(health.check({ service: 'nothing' })).rejects.toMatchObject({ reason: ErrorReason.NOT_FOUND });
  });

  test('can be watched', async () => {
    await using port = await serveRpc([]);
    using transport = transportTo(port.url);
    const watched = createRpcClient(Health, transport).watch({ service: 'later' })[Symbol.asyncIterator]();
    expect((await watched.next()).value?.status).toBe(Status.SERVICE_UNKNOWN);
    port.server.health.set('later', true);
    expect((await watched.next()).value?.status).toBe(Status.SERVING);
    port.server.health.set('later', false);
    expect((await watched.next()).value?.status).toBe(Status.NOT_SERVING);
  });
});

test.runIf(hasIpv6)('a server at an IPv6 address is reached by the URL that it returns', async () => {
  const getKey = ({ keyId: id }: { keyId: string }) => ({ key: { id } });
  await using port = await serveRpc(testServices({ keys: { getKey } }), { host: '::1' });
  expect(port.url).toMatch(/^http:\/\/\[::1\]:\d+$/);
  using transport = transportTo(port.url);
  expect((await createRpcClient(KeysService, transport).getKey({ keyId }, asCaller())).key?.id).toBe(keyId);
});

describe('a closing server', () => {
  test.each(['', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'])(
    'does not wait for a client that stays after %j',
    async (said) => {
      const port = await serveRpc([]);
      const silent = connectTcp({ port: Number(new URL(port.url).port), host: '127.0.0.1', allowHalfOpen: true });
      silent.write(said);
      await once(silent, 'data');
      await port.server.close();
      silent.destroy();
    },
  );

  test('ends subscriptions at once, lets calls finish, and accepts no more', async () => {
    let finish = () => {};
    let watch: HandlerContext | undefined;
    let started = false;
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const port = await serveRpc(
      testServices({
        keys: {
          async getKey() {
            started = true;
            await finished;
            return { key: { name: 'finished' } };
          },
          async *watchKeys(_request, context) {
            watch = context;
            yield {};
            await new Promise(() => {});
          },
        },
      }),
      { drainMs: 60_000 },
    );
    using transport = transportTo(port.url);
    const keys = createRpcClient(KeysService, transport);
    const subscription = keys.watchKeys({ edgeId: keyId }, asCaller())[Symbol.asyncIterator]();
    await subscription.next();
    const call = keys.getKey({ keyId }, { ...asCaller(), timeoutMs: 60_000 });
    await vi.waitFor(() => expect(started).toBe(true), patience);
    const subscriptionEnd = subscription.next().then(
      () => undefined,
      (error: unknown) => error,
    );
    const closed = port.server.close();
    expect(await subscriptionEnd).toMatchObject({ reason: ErrorReason.OVERLOADED });
    expect(watch?.signal.aborted).toBe(true);
    finish();
    expect((await call).key?.name).toBe('finished');
    await closed;
    await expect(keys.getKey({ keyId }, asCaller())).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
  });

  test('ends calls that outlast the drain', async () => {
    let started = () => {};
    const running = new Promise<void>((resolve) => {
      started = resolve;
    });
    let cleanedUp = false;
    const port = await serveRpc(
      testServices({
        inference: {
          async *invoke(_request, { signal }) {
            try {
              yield {};
              started();
              await aborted(signal);
            } finally {
              cleanedUp = true;
            }
          },
        },
      }),
      { drainMs: 50 },
    );
    using transport = transportTo(port.url);
    const reader = createRpcClient(InferenceService, transport).invoke(invocation, asCaller())[Symbol.asyncIterator]();
    await reader.next();
    const end = reader.next().then(
      () => undefined,
      (error: unknown) => error,
    );
    await running;
    await port.server.close();
    expect(await end).toMatchObject({ reason: ErrorReason.OVERLOADED });
    expect(cleanedUp).toBe(true);
  });

  test('closes although a client keeps its connection and a handler hangs', async () => {
    const getKey = vi.fn(() => new Promise<never>(() => {}));
    const port = await serveRpc(testServices({ keys: { getKey } }), { drainMs: 50 });
    using transport = transportTo(port.url);
    const call = createRpcClient(KeysService, transport).getKey({ keyId }, asCaller());
    const end = call.catch((error: unknown) => error);
    await vi.waitFor(() => expect(getKey).toHaveBeenCalled(), patience);
    await port.server.close();
    expect(await end).toMatchObject({ reason: ErrorReason.OVERLOADED });
  });
});

describe('a client', () => {
  test('of a host whose addresses all refuse it says why each of them did', async () => {
    using _ = useSeveralAddresses();
    using transport = transportTo(`http://${severalAddresses}:1`);
    await expect(createRpcClient(KeysService, transport).getKey({ keyId }, asCaller())).rejects.toMatchObject({
      reason: ErrorReason.OVERLOADED,
      details: { internal: expect.stringMatching(bothRefused) },
    });
  });

  test('of a port where nobody listens fails with OVERLOADED, and works once somebody does', async () => {
    const port = await freePort();
    using transport = transportTo(`http://127.0.0.1:${port}`);
    const call = () => createRpcClient(KeysService, transport).getKey({ keyId }, asCaller());
    await expect(call()).rejects.toMatchObject({
      reason: ErrorReason.OVERLOADED,
      details: { internal: expect.stringContaining('ECONNREFUSED') },
    });
    await using _server = await serveRpc(testServices({ keys: { getKey: () => ({}) } }), { port });
    await vi.waitFor(call, patience);
  });

  test('that does not trust the certificate makes no call', async () => {
    const getKey = vi.fn(() => ({}));
    await using port = await serveRpc(testServices({ keys: { getKey } }), { tls: true });
    using transport = transportTo(port.url);
    const call = createRpcClient(KeysService, transport).getKey({ keyId }, asCaller());
    await expect(call).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
    expect(getKey).not.toHaveBeenCalled();
  });
});

describe('the log', () => {
  test('has method, time and caller of each call, and nothing of its content', async () => {
    await using port = await serveRpc(testServices({ keys: { getKey: () => ({ key: { name: 'CONTENT' } }) } }));
    using transport = transportTo(port.url);
    await createRpcClient(KeysService, transport).getKey({ keyId }, asCaller());
    expect(port.lines).toEqual([
      expect.objectContaining({
        method: 'modelgateway.keys.v1.KeysService/GetKey',
        latencyMs: expect.any(Number),
        userId: caller.userId,
        requestId: 'req_1',
      }),
    ]);
    expect(JSON.stringify(port.lines)).not.toMatch(new RegExp(`CONTENT|${keyId}`));
  });

  test('counts a client that breaks its call off with an error as one that left', async () => {
    await using port = await serveRpc([]);
    const session = connect(port.url);
    const headers = { ':method': 'POST', ':path': '/grpc.health.v1.Health/Watch', 'content-type': 'application/grpc' };
    const call = session.request(headers).on('error', () => {});
    call.end(Buffer.alloc(5));
    await once(call, 'data');
    call.close(constants.NGHTTP2_INTERNAL_ERROR);
    await vi.waitFor(() => expect(port.lines).toHaveLength(1), patience);
    expect(port.lines[0]).toMatchObject({ reason: 'CANCELLED' });
    session.destroy();
  });
});
