import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { Health, HealthCheckResponse_ServingStatus as Status } from '#gen/grpc/health/v1/health_pb.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { serviceNames } from '#shared/service-names.ts';
import { freePort, hasIpv6 } from '../support/free-port.ts';
import { owner } from '../support/gateway.ts';
import { urlOf } from '../support/gateway-process.ts';
import { givenSecrets, ownDataDir } from '../support/own-data-dir.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { type StartedProcess, startProcess } from '../support/processes.ts';
import { openTalk } from '../support/realtime-client.ts';
import { restCalls } from '../support/rest.ts';
import { transportTo } from '../support/rpc-carriers.ts';
import { startUpstreamSimulator } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

const home = ownDataDir();
const script = 'services/cmd/all.ts';

test('SIGTERM turns readiness and the health of the RPC port off for SHUTDOWN_DELAY_SECONDS, lets a running stream end, says goodbye to sockets, and the process exits with 0', async () => {
  await using database = await createTestDatabase();
  await using simulator = await startUpstreamSimulator();
  await using child = startProcess({
    script,
    // Longer than Fastify waits for hooks.
    env: { ...home.env(), DATABASE_URL: database.url, UPSTREAM_BASE_URL: simulator.url, SHUTDOWN_DELAY_SECONDS: '11' },
  });
  const url = await urlOf(child);
  const json = { 'content-type': 'application/json' };
  const login = await fetch(`${url}/api/v1/auth/login`, { method: 'POST', headers: json, body: JSON.stringify(owner) });
  const { access_token: session } = (await login.json()) as { access_token: string };
  await using talk = await openTalk(url, { key: session });
  await talk.event('session.created');
  const released = Promise.withResolvers<void>();
  simulator.next({ hold: { until: released.promise, afterChunks: 3 } });
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { ...json, authorization: `Bearer ${session}` },
    body: JSON.stringify({ model: 'sim-chat', stream: true, messages: [{ role: 'user', content: 'Hi' }] }),
  });
  const text = response.text();
  using rpc = await healthAt(child);
  const signalledMs = performance.now();
  child.signal('SIGTERM');
  // As npm does, which passes on what the terminal has sent to all.
  child.signal('SIGTERM');
  const isReady = () =>
    fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  await waitFor(async () => !(await isReady()), { description: 'readiness to be off' });
  await rpc.isOff();
  const rpcClosed = rpc.closedMs();
  expect((await talk.close()).code).toBe(1001);
  released.resolve();
  expect(await text).toMatch(/data: \[DONE\]\n\n$/);
  // Before the 20 s after which connections are cut: one that is idle after its stream is not waited for.
  expect(await child.exited(26_000)).toMatchObject({ code: 0 });
  expect(performance.now() - signalledMs).toBeGreaterThan(11_000);
  expect((await rpcClosed) - signalledMs).toBeGreaterThan(10_900);
  expect(child.output).not.toContain('"level":50');
  expect(child.output, 'a given password').not.toContain(owner.password);
});

test('after a SIGTERM the RPC port of services still answers for SHUTDOWN_DELAY_SECONDS, and says by grpc.health.v1 that it is not serving', async () => {
  await using database = await createTestDatabase();
  const env = { ...home.env(), ...givenSecrets, DATABASE_URL: database.url, SHUTDOWN_DELAY_SECONDS: '3' };
  await using child = startProcess({ script: 'services/cmd/service.ts', args: ['usage'], env });
  using rpc = await healthAt(child);
  const signalledMs = performance.now();
  child.signal('SIGTERM');
  await rpc.isOff();
  expect((await rpc.closedMs()) - signalledMs).toBeGreaterThan(2_900);
  expect(await child.exited(15_000)).toMatchObject({ code: 0 });
});

test.each([
  ['SIGINT', 'and does not wait for balancers', '60'],
  ['SIGTERM', 'after SHUTDOWN_DELAY_SECONDS', '1'],
] as const)(
  'a %s to the whole process group lets the streams of all WORKERS end, %s',
  async (signal, _when, SHUTDOWN_DELAY_SECONDS) => {
    await using database = await createTestDatabase();
    await using simulator = await startUpstreamSimulator();
    await using child = startProcess({
      script,
      env: {
        ...home.env(),
        WORKERS: '2',
        DATABASE_URL: database.url,
        UPSTREAM_BASE_URL: simulator.url,
        SHUTDOWN_DELAY_SECONDS,
      },
      detached: true,
    });
    const url = await urlOf(child);
    const { access_token: session } = await restCalls(url)('POST', '/api/v1/auth/login', '', owner);
    const released = Promise.withResolvers<void>();
    const streams = await Promise.all(
      Array.from({ length: 4 }, () => {
        simulator.next({ hold: { until: released.promise, afterChunks: 3 } });
        return fetch(`${url}/v1/chat/completions`, {
          method: 'POST',
          // Workers get connections in turn.
          headers: { 'content-type': 'application/json', authorization: `Bearer ${session}`, connection: 'close' },
          body: JSON.stringify({ model: 'sim-chat', stream: true, messages: [{ role: 'user', content: 'Hi' }] }),
        });
      }),
    );
    const texts = streams.map((stream) => stream.text());
    process.kill(-child.pid, signal);
    // A connection made just as the last worker stops listening is kept by Node's cluster and never answered.
    const refused = () =>
      fetch(`${url}/healthz`, { signal: AbortSignal.timeout(2_000) }).then(
        () => false,
        () => true,
      );
    await waitFor(refused, { description: 'no worker to listen' });
    released.resolve();
    for (const text of await Promise.all(texts)) expect(text).toMatch(/data: \[DONE\]\n\n$/);
    expect(await child.exited(15_000)).toMatchObject({ code: 0 });
  },
);

test('after a SIGTERM no job is begun any more, while requests still are: jobs under way get their 20 s meanwhile, not after that', async () => {
  await using database = await createTestDatabase();
  await using simulator = await startUpstreamSimulator();
  const env = { ...home.env(), DATABASE_URL: database.url, UPSTREAM_BASE_URL: simulator.url };
  await using child = startProcess({ script, env: { ...env, SHUTDOWN_DELAY_SECONDS: '60' } });
  const url = await urlOf(child);
  const call = restCalls(url);
  const { access_token: session } = await call('POST', '/api/v1/auth/login', '', owner);
  const chat = (more: object) => {
    const body = { model: 'sim-chat', messages: [{ role: 'user', content: 'Hi' }], ...more };
    return call('POST', '/v1/chat/completions', session, body);
  };
  const before = await chat({ background: true });
  const statusOf = async ({ id }: { id: string }) => (await call('GET', `/api/v1/jobs/${id}`, session)).status;
  await waitFor(async () => (await statusOf(before)) === 'completed', { description: 'a job to run' });
  child.signal('SIGTERM');
  await waitFor(async () => !(await fetch(`${url}/readyz`)).ok, { description: 'readiness to be off' });
  const after = await chat({ background: true });
  // A worker that takes jobs begins one within 20 ms.
  for (let count = 0; count < 20; count++) await chat({});
  expect(await statusOf(after)).toBe('queued');
  child.signal('SIGKILL');
});

/*
 * npm passes a signal on to its own child only: a shell in between would die of it and leave the gateway running, with nobody to stop it.
 */
test.each([
  ['start', []],
  ['edge', []],
  ['service', ['usage']],
  ['worker', []],
])(
  'a SIGTERM to `npm run %s` ends the process that serves, and npm with it',
  { timeout: 60_000 },
  async (name, args) => {
    // A database or a service that is slow to answer.
    await using silent = await listening();
    const { port } = silent;
    await using npm = startProcess({
      command: ['npm', 'run'],
      script: name,
      args,
      env: {
        ...home.env(),
        ...givenSecrets,
        SHUTDOWN_DELAY_SECONDS: '0',
        DATABASE_URL: `postgres://nobody@127.0.0.1:${port}/none`,
        ...(name !== 'start' && {
          RPC_URLS: serviceNames.map((service) => `${service}=http://127.0.0.1:${port}`).join(','),
        }),
      },
      detached: true,
    });
    try {
      await Promise.race([silent.connected, npm.exited()]);
      expect(npm.exit).toBeNull();
      npm.signal('SIGTERM');
      // Its output ends with the last process that could write to it.
      await npm.exited(15_000);
      expect(npm.output).not.toContain('DATABASE_URL');
    } finally {
      if (npm.exit === null) process.kill(-npm.pid, 'SIGKILL');
    }
  },
);

test.each(['SIGINT', 'SIGTERM'] as const)(
  'a %s before anything is served ends the process at once, the first one of a container too',
  async (signal) => {
    // A database that is slow to answer.
    await using silent = await listening();
    const DATABASE_URL = `postgres://nobody@127.0.0.1:${silent.port}/none`;
    await using child = startProcess({ script, env: { ...home.env(), DATABASE_URL } });
    await silent.connected;
    child.signal(signal);
    // A process without a handler is ended by the signal itself, or not at all: Linux keeps it from a namespace's first process.
    expect(await child.exited(4_000)).toEqual({ code: 0, signal: null });
    expect(child.output).toBe('');
  },
);

test('the first process of WORKERS is ready once they listen, no longer while they drain, and a second SIGTERM ends them all at once', async () => {
  await using database = await createTestDatabase();
  const metricsPort = await freePort();
  const env = { ...home.env(), WORKERS: '2', METRICS_PORT: String(metricsPort), SHUTDOWN_DELAY_SECONDS: '60' };
  const HOST = hasIpv6 ? '::1' : '127.0.0.1';
  const loopback = hasIpv6 ? `[${HOST}]` : HOST;
  await using child = startProcess({ script, env: { ...env, HOST, DATABASE_URL: database.url } });
  const metrics = `http://${loopback}:${metricsPort}`;
  const status = (of: string, path: string) =>
    fetch(of + path, { headers: { connection: 'close' } }).then(
      (answer) => answer.status,
      () => undefined,
    );
  await waitFor(async () => (await status(metrics, '/readyz')) === 200, {
    description: 'the first one to be ready',
    timeoutMs: 60_000,
  });
  const url = (await child.waitForLine(/API and portal\s+(\S+)/))[1]!;
  expect(url.replace(/\d+$/, '')).toBe(`http://${loopback}:`);
  expect(await status(url, '/readyz')).toBe(200);
  expect(child.exit).toBeNull();
  child.signal('SIGTERM');
  await waitFor(async () => (await status(metrics, '/readyz')) === 503, { description: 'the first one to say so' });
  expect(await status(url, '/healthz')).toBe(200);
  // A repeat within a second counts as the same signal.
  const ended = () => {
    child.signal('SIGTERM');
    return child.exit !== null;
  };
  await waitFor(ended, { description: 'its end' });
  expect(child.exit).toEqual({ code: 130, signal: null });
  await waitFor(async () => (await status(url, '/healthz')) === undefined, { description: 'nobody to listen' });
});

/** What the RPC port of a process says of its health by grpc.health.v1, which is good now. */
async function healthAt(child: StartedProcess): Promise<
  Disposable & {
    /** It still answers, and says to those who watch and those who ask that it is not serving. */
    isOff(): Promise<void>;
    /** When it says to those who watch that it ends. */
    closedMs(): Promise<number>;
  }
> {
  const url = `http://127.0.0.1:${await child.waitForPort(/(?:Internal RPC +|usage at )http:\/\/[^:]+:(\d+)/)}`;
  const watching = transportTo(url);
  const anew = transportTo(url);
  const watched = createRpcClient(Health, watching).watch({})[Symbol.asyncIterator]();
  expect((await watched.next()).value?.status).toBe(Status.SERVING);
  return {
    async isOff() {
      expect((await watched.next()).value?.status).toBe(Status.NOT_SERVING);
      const service = 'modelgateway.usage.v1.UsageService';
      expect((await createRpcClient(Health, anew).check({ service })).status).toBe(Status.NOT_SERVING);
    },
    async closedMs() {
      await expect(watched.next()).rejects.toThrow('restarting');
      return performance.now();
    },
    [Symbol.dispose]() {
      watching[Symbol.dispose]();
      anew[Symbol.dispose]();
    },
  };
}

/** Accepts connections and says nothing. */
async function listening(): Promise<{ port: number; connected: Promise<unknown[]> } & AsyncDisposable> {
  const server = createServer().listen(0, '127.0.0.1');
  const connected = once(server, 'connection');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    connected,
    async [Symbol.asyncDispose]() {
      server.close();
      ((await connected)[0] as Socket).destroy();
    },
  };
}
