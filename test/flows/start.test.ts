import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { serviceNames } from '#shared/service-names.ts';
import { selfSignedCertificate } from '../support/certificate.ts';
import { freePort } from '../support/free-port.ts';
import { owner } from '../support/gateway.ts';
import { urlOf } from '../support/gateway-process.ts';
import { createTestDatabase, rowsOf } from '../support/postgres.ts';
import { startProcess } from '../support/processes.ts';
import { openTalk } from '../support/realtime-client.ts';
import { restCalls } from '../support/rest.ts';
import { startUpstreamSimulator } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

let dataDir: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'gateway-start-'));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

const script = 'services/cmd/all.ts';
const base = () => ({
  PORT: '0',
  RPC_PORT: '0',
  DATA_DIR: dataDir,
  BOOTSTRAP_EMAIL: owner.email,
  BOOTSTRAP_PASSWORD: owner.password,
  LOG_LEVEL: 'error',
});

/** With these, DATA_DIR need not keep any. */
const secrets = {
  KEY_PEPPER: 'a pepper that is long enough for a test',
  SERVICE_SECRET: 'a service secret that is long enough',
};

/** Folders whose existence the kernel denies to whoever tries to create another inside them. */
const whereNoneCanBeMade: [what: string, env: Record<string, string>, line: RegExp][] = [
  ['a data folder where none can be made', { DATA_DIR: '/proc/data' }, /\(ENOENT\): make DATA_DIR/],
  ['the same with secrets from elsewhere', { DATA_DIR: '/proc/data', ...secrets }, /^DATA_DIR \/proc\/data cannot be/],
  ['a data folder that takes nothing', { DATA_DIR: '/proc', ...secrets }, /^DATA_DIR \/proc cannot be/],
];

const rpcUrls = (...names: string[]): string => names.map((name) => `${name}=http://127.0.0.1:1`).join(',');

describe('a start that cannot succeed says why in one line and exits with 1', () => {
  test.each<[what: string, env: Record<string, string>, line: RegExp]>([
    ['PORT', { PORT: 'eighty' }, /^PORT is not valid: /],
    ['DATABASE_URL', { DATABASE_URL: 'mysql://x' }, /^DATABASE_URL is not valid: /],
    ['an unreachable database', { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' }, /DATABASE_URL/],
    ['JOURNAL_SYNC', { JOURNAL_SYNC: 'sometimes' }, /^JOURNAL_SYNC is not valid: /],
    ['CLOCK', { CLOCK: 'tomorrow' }, /^CLOCK is not valid: /],
    ['a short secret', { SERVICE_SECRET: 'short' }, /^SERVICE_SECRET is not valid: /],
    ['a missing secret in production', { NODE_ENV: 'production' }, /^KEY_PEPPER is required with NODE_ENV=production/],
    ['a data folder that is a file', { DATA_DIR: '/etc/hostname' }, /DATA_DIR/],
    ...(process.platform === 'linux' ? whereNoneCanBeMade : []),
  ])('%s', async (_what, env, line) => {
    await using child = startProcess({ script, env: { ...base(), ...env } });
    expect(await child.exited(15_000)).toMatchObject({ code: 1 });
    const lines = child.output.trim().split('\n');
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(line);
  });

  test.each([
    ['services/cmd/edge.ts', 'keys, models, billing, usage, auth, jobs', {}],
    ['services/cmd/edge.ts', 'billing, jobs', { RPC_URLS: rpcUrls('keys', 'auth', 'usage', 'models') }],
    ['services/cmd/worker.ts', 'usage', { RPC_URLS: rpcUrls('keys', 'auth', 'billing', 'models') }],
    ['services/cmd/service.ts usage,inference', 'billing, models', { RPC_URLS: rpcUrls('keys') }],
  ])('%s, when RPC_URLS does not say where %s are', async (process, missing, env) => {
    const DATABASE_URL = 'postgres://nobody@127.0.0.1:1/none';
    const [file, ...args] = process.split(' ');
    await using child = startProcess({ script: file!, args, env: { ...base(), DATABASE_URL, ...env } });
    expect(await child.exited()).toMatchObject({ code: 1 });
    expect(child.output.trim()).toMatch(new RegExp(`^RPC_URLS has no address for ${missing}: [^\\n]*$`));
  });

  test('a host whose name cannot be resolved', async () => {
    await using database = await createTestDatabase();
    const env = { ...base(), DATABASE_URL: database.url, HOST: 'nowhere.invalid', PUBLIC_URL: 'http://gateway.test' };
    await using child = startProcess({ script, env });
    expect(await child.exited()).toMatchObject({ code: 1 });
    expect(child.output.trim()).toMatch(/^The address to listen on is not one of this machine's: set HOST\.$/);
  });

  test('a password for the first operator that no user may have, or an invalid email address', async () => {
    await using database = await createTestDatabase();
    const weak = { ...base(), DATABASE_URL: database.url, BOOTSTRAP_PASSWORD: 'all-lower-case' };
    await using refused = startProcess({ script, env: weak });
    expect(await refused.exited()).toMatchObject({ code: 1 });
    expect(refused.output.trim()).toBe(
      'BOOTSTRAP_PASSWORD: The password is too weak: it lacks an upper-case letter, a digit.',
    );
    // Once there is an operator they are ignored.
    await using first = startProcess({ script, env: { ...weak, BOOTSTRAP_PASSWORD: owner.password } });
    await urlOf(first);
    await first.kill();
    await using later = startProcess({ script, env: weak });
    await urlOf(later);
    await later.kill();

    const client = new pg.Client(database.url);
    await client.connect();
    await client.query('update auth.users set operator = false');
    await client.end();
    await using lost = startProcess({ script, env: { ...weak, BOOTSTRAP_PASSWORD: owner.password } });
    expect(await lost.exited()).toMatchObject({ code: 1 });
    expect(lost.output.trim()).toBe(
      'BOOTSTRAP_EMAIL: A user with this email address exists, but is not a platform operator.',
    );
  });

  test('a lost or changed pepper of a database with keys, which work again once it is back', async () => {
    await using database = await createTestDatabase();
    const env = { ...base(), DATABASE_URL: database.url };
    const file = join(dataDir, 'secrets', 'key_pepper');
    const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
    await using first = startProcess({ script, env });
    const call = restCalls(await urlOf(first));
    const { access_token: session } = await call('POST', '/api/v1/auth/login', '', owner);
    const { key } = await call('POST', '/api/v1/api-keys', session, { name: 'kept' });
    await first.kill();

    renameSync(file, `${file}.kept`);
    for (const changed of [{}, { KEY_PEPPER: secrets.KEY_PEPPER }]) {
      await using refused = startProcess({ script, env: { ...env, ...changed } });
      expect(await refused.exited()).toMatchObject({ code: 1 });
      expect(refused.output.trim()).toMatch(
        /^KEY_PEPPER differs from the one [^\n]* \(version 1\)[^\n]*: restore it \(a generated [^\n]*$/,
      );
    }
    renameSync(`${file}.kept`, file);
    await using restored = startProcess({ script, env });
    const answer = await restCalls(await urlOf(restored))('POST', '/v1/chat/completions', key, chat);
    expect(answer.choices).toHaveLength(1);
  });

  test('a data folder that cannot hold a journal, with the database elsewhere', async () => {
    await using database = await createTestDatabase();
    const env = { ...base(), ...secrets, DATABASE_URL: database.url, DATA_DIR: '/etc/hostname/data' };
    await using child = startProcess({ script, env });
    expect(await child.exited()).toMatchObject({ code: 1 });
    expect(child.output.trim()).toMatch(/^DATA_DIR \/etc\/hostname\/data cannot be written \(ENOTDIR\): [^\n]*$/);
  });

  test.each<[of: string, script: string, env: Record<string, string>]>([
    ['a gateway', script, {}],
    ['WORKERS', script, { WORKERS: '2' }],
    ['an edge that finds no services', 'services/cmd/edge.ts', { RPC_URLS: rpcUrls(...serviceNames) }],
  ])('a taken port, of %s', async (_of, script, further) => {
    await using database = await createTestDatabase();
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as { port: number };
    try {
      const env = { ...base(), DATABASE_URL: database.url, PORT: String(port), ...further };
      await using child = startProcess({ script, env });
      expect(await child.exited()).toMatchObject({ code: 1 });
      expect(child.output.trim()).toMatch(new RegExp(`^Port ${port} is taken: [^\\n]* PORT [^\\n]*$`));
    } finally {
      taken.close();
    }
  });
});

test('a first start prints a password that it generated, and none that it was given', async () => {
  for (const given of [owner.password, undefined]) {
    await using database = await createTestDatabase();
    const env = { ...base(), DATABASE_URL: database.url, BOOTSTRAP_PASSWORD: given };
    await using child = startProcess({ script, env });
    const url = await urlOf(child);
    await child.waitForLine(/"model":"sandbox-chat"/);
    const [, printed] = /First sign-in\s+\S+\s+(\S+)/.exec(child.output) ?? [];
    if (given !== undefined) expect(child.output).not.toContain(given);
    expect(printed === undefined).toBe(given !== undefined);
    const login = await fetch(`${url}/api/v1/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: owner.email, password: given ?? printed }),
    });
    expect(login.status).toBe(200);
  }
});

test('a generated password is shown even if the start fails afterwards', async () => {
  await using database = await createTestDatabase();
  const taken = createServer().listen(0, '127.0.0.1');
  try {
    await once(taken, 'listening');
    const port = String((taken.address() as AddressInfo).port);
    const env = { ...base(), DATABASE_URL: database.url, BOOTSTRAP_PASSWORD: undefined, WORKERS: '2', PORT: port };
    await using child = startProcess({ script, env });
    expect(await child.exited()).toMatchObject({ code: 1 });
    expect(child.output).toMatch(/First sign-in\s+owner@example\.com\s+\S{8,}/);
  } finally {
    taken.close();
  }
});

test.each(['stdout', 'stderr'] as const)('a gateway whose %s nobody reads any more keeps running', async (stream) => {
  await using database = await createTestDatabase();
  const port = await freePort();
  const child = spawn(process.execPath, [script], {
    env: { ...process.env, ...base(), DATABASE_URL: database.url, PORT: String(port), LOG_LEVEL: 'trace' },
    stdio: ['ignore', stream === 'stdout' ? 'pipe' : 'ignore', stream === 'stderr' ? 'pipe' : 'ignore'],
  });
  child[stream]!.destroy();
  try {
    const isReady = () =>
      fetch(`http://127.0.0.1:${port}/readyz`).then(
        ({ ok }) => ok || child.exitCode !== null,
        () => child.exitCode !== null,
      );
    await waitFor(isReady, { description: 'readiness', timeoutMs: 60_000 });
    await restCalls(`http://127.0.0.1:${port}`)('POST', '/api/v1/auth/login', '', owner);
    child.kill('SIGINT');
    expect(await once(child, 'exit')).toEqual([0, null]);
  } finally {
    child.kill('SIGKILL');
  }
});

test('a first start killed while it waits for its upstream leaves no operator whose password nobody knows', async () => {
  await using database = await createTestDatabase();
  const silent = createServer().listen(0, '127.0.0.1');
  try {
    await once(silent, 'listening');
    const upstream = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/v1`;
    const env = { ...base(), DATABASE_URL: database.url, BOOTSTRAP_PASSWORD: undefined, UPSTREAM_BASE_URL: upstream };
    await using child = startProcess({ script, env });
    await once(silent, 'connection');
    await child.kill();
    expect(await rowsOf(database.url, 'select email from auth.users')).toEqual([]);
  } finally {
    silent.close();
  }
});

const hasIpv6 = Object.values(networkInterfaces()).some((addresses) =>
  addresses!.some(({ family }) => family === 'IPv6'),
);

test.runIf(hasIpv6).each([
  ['::', '1', '127.0.0.1'],
  ['::1', '2', '[::1]'],
])('a start with HOST=%s and WORKERS=%s prints an address to paste: http://%s:…', async (host, workers, printed) => {
  await using database = await createTestDatabase();
  await using child = startProcess({
    script,
    env: { ...base(), DATABASE_URL: database.url, HOST: host, WORKERS: workers },
  });
  const [, url] = await child.waitForLine(/API and portal\s+(\S+)/);
  expect(url!.replace(/\d+$/, '')).toBe(`http://${printed}:`);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
});

test('SIGTERM turns readiness off for SHUTDOWN_DELAY_SECONDS, lets a running stream end, says goodbye to sockets, and the process exits with 0', async () => {
  await using database = await createTestDatabase();
  await using simulator = await startUpstreamSimulator();
  await using child = startProcess({
    script,
    // Longer than Fastify waits for hooks.
    env: { ...base(), DATABASE_URL: database.url, UPSTREAM_BASE_URL: simulator.url, SHUTDOWN_DELAY_SECONDS: '11' },
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
  expect((await talk.close()).code).toBe(1001);
  released.resolve();
  expect(await text).toMatch(/data: \[DONE\]\n\n$/);
  // Before the 20 s after which connections are cut: one that is idle after its stream is not waited for.
  expect(await child.exited(26_000)).toMatchObject({ code: 0 });
  expect(performance.now() - signalledMs).toBeGreaterThan(11_000);
  expect(child.output).not.toContain('"level":50');
});

test.each(['SIGINT', 'SIGTERM'] as const)(
  'a %s to the whole process group lets the streams of all WORKERS end',
  async (signal) => {
    await using database = await createTestDatabase();
    await using simulator = await startUpstreamSimulator();
    await using child = startProcess({
      script,
      env: { ...base(), WORKERS: '2', DATABASE_URL: database.url, UPSTREAM_BASE_URL: simulator.url },
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
        ...base(),
        ...secrets,
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
    await using child = startProcess({ script, env: { ...base(), DATABASE_URL } });
    await silent.connected;
    child.signal(signal);
    // A process without a handler is ended by the signal itself, or not at all: Linux keeps it from a namespace's first process.
    expect(await child.exited(4_000)).toEqual({ code: 0, signal: null });
    expect(child.output).toBe('');
  },
);

describe('the first process of WORKERS', () => {
  test('passes a SIGINT on as one, and does not wait for balancers', async () => {
    await using database = await createTestDatabase();
    const env = { ...base(), WORKERS: '2', DATABASE_URL: database.url, SHUTDOWN_DELAY_SECONDS: '60' };
    await using child = startProcess({ script, env });
    await urlOf(child);
    child.signal('SIGINT');
    expect(await child.exited(15_000)).toMatchObject({ code: 0 });
  });

  test('is reached by them, and by operators on its machine, even if RPC_TLS_CERT has another name and no known authority', async () => {
    await using database = await createTestDatabase();
    const { cert, key } = selfSignedCertificate();
    writeFileSync(join(dataDir, 'cert.pem'), cert);
    writeFileSync(join(dataDir, 'key.pem'), key);
    const env = {
      ...base(),
      WORKERS: '2',
      DATABASE_URL: database.url,
      // A name that is not in the certificate.
      RPC_HOST: '127.0.0.2',
      RPC_PORT: String(await freePort()),
      RPC_TLS_CERT: join(dataDir, 'cert.pem'),
      RPC_TLS_KEY: join(dataDir, 'key.pem'),
    };
    await using child = startProcess({ script, env });
    await restCalls(await urlOf(child))('POST', '/api/v1/auth/login', '', owner);
    const admin = (with_: object) =>
      startProcess({ script: 'services/cmd/admin.ts', args: ['organizations', 'list'], env: { ...env, ...with_ } });
    await using trusting = admin({});
    expect(await trusting.exited(), trusting.output).toMatchObject({ code: 0 });
    // Only that very certificate is trusted, not another one with the same contents.
    const other = selfSignedCertificate();
    writeFileSync(join(dataDir, 'other.pem'), other.cert);
    writeFileSync(join(dataDir, 'other-key.pem'), other.key);
    await using astray = admin({
      RPC_TLS_CERT: join(dataDir, 'other.pem'),
      RPC_TLS_KEY: join(dataDir, 'other-key.pem'),
    });
    expect(await astray.exited()).toMatchObject({ code: 1 });
  });

  test('is ready once they listen', async () => {
    await using database = await createTestDatabase();
    const [port, metricsPort] = [await freePort(), await freePort()];
    const ports = { PORT: String(port), METRICS_PORT: String(metricsPort) };
    await using child = startProcess({
      script,
      env: { ...base(), ...ports, WORKERS: '2', DATABASE_URL: database.url },
    });
    const isReady = () =>
      fetch(`http://127.0.0.1:${metricsPort}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      );
    await waitFor(isReady, { description: 'the first one to be ready', timeoutMs: 60_000 });
    expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200);
    expect(child.exit).toBeNull();
  });

  test('is no longer ready while they drain, and a second SIGTERM ends them all at once', async () => {
    await using database = await createTestDatabase();
    const metricsPort = await freePort();
    const env = { ...base(), WORKERS: '2', METRICS_PORT: String(metricsPort), SHUTDOWN_DELAY_SECONDS: '60' };
    await using child = startProcess({ script, env: { ...env, DATABASE_URL: database.url } });
    const url = await urlOf(child);
    const metrics = `http://127.0.0.1:${metricsPort}`;
    const status = (of: string, path: string) =>
      fetch(of + path, { headers: { connection: 'close' } }).then((answer) => answer.status);
    expect(await status(metrics, '/readyz')).toBe(200);
    child.signal('SIGTERM');
    await waitFor(async () => (await status(metrics, '/readyz')) === 503, {
      description: 'the first one to say so',
    });
    expect(await status(url, '/healthz')).toBe(200);
    // A repeat within a second counts as the same signal.
    const ended = () => {
      child.signal('SIGTERM');
      return child.exit !== null;
    };
    await waitFor(ended, { description: 'its end' });
    expect(child.exit).toEqual({ code: 130, signal: null });
    const refused = () =>
      status(url, '/healthz').then(
        () => false,
        () => true,
      );
    await waitFor(refused, { description: 'nobody to listen' });
  });
});

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
