import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { renameSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { serviceNames } from '#shared/service-names.ts';
import { selfSignedCertificate } from '../support/certificate.ts';
import { freePort } from '../support/free-port.ts';
import { owner } from '../support/gateway.ts';
import { urlOf } from '../support/gateway-process.ts';
import { givenSecrets, ownDataDir } from '../support/own-data-dir.ts';
import { createTestDatabase, rowsOf } from '../support/postgres.ts';
import { startProcess } from '../support/processes.ts';
import { restCalls } from '../support/rest.ts';
import { waitFor } from '../support/wait-for.ts';
import { pidsOfWorkers } from '../support/worker-pids.ts';

const home = ownDataDir();
const script = 'services/cmd/all.ts';

/** Folders whose existence the kernel denies to whoever tries to create another inside them. */
const whereNoneCanBeMade: [what: string, env: Record<string, string>, line: RegExp][] = [
  ['a data folder where none can be made', { DATA_DIR: '/proc/data' }, /\(ENOENT\): make DATA_DIR/],
  [
    'the same with secrets from elsewhere',
    { DATA_DIR: '/proc/data', ...givenSecrets },
    /^DATA_DIR \/proc\/data cannot be/,
  ],
  ['a data folder that takes nothing', { DATA_DIR: '/proc', ...givenSecrets }, /^DATA_DIR \/proc cannot be/],
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
    await using child = startProcess({ script, env: { ...home.env(), ...env } });
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
    await using child = startProcess({ script: file!, args, env: { ...home.env(), DATABASE_URL, ...env } });
    expect(await child.exited()).toMatchObject({ code: 1 });
    expect(child.output.trim()).toMatch(new RegExp(`^RPC_URLS has no address for ${missing}: [^\\n]*$`));
  });

  test.each([
    ['services/cmd/edge.ts', 'KEY_PEPPER', ['SERVICE_SECRET'], 'RPC_URLS'],
    ['services/cmd/worker.ts', 'SERVICE_SECRET', [], 'RPC_URLS'],
    ['services/cmd/service.ts usage,inference', 'SERVICE_SECRET', [], 'RPC_URLS'],
    ['services/cmd/service.ts keys', 'KEY_PEPPER', ['SERVICE_SECRET'], 'Postgres'],
    ['services/cmd/service.ts auth', 'JWT_PRIVATE_KEY', ['SERVICE_SECRET'], undefined],
  ])(
    '%s in production, without %s, and asks for no secret that it does not use',
    async (process, missing, others, next) => {
      const [file, ...args] = process.split(' ');
      const refusalOf = async (...names: string[]) => {
        const env = { ...home.env(), NODE_ENV: 'production', DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' };
        const secrets = Object.fromEntries(names.map((name) => [name, 'a secret that is long enough for this']));
        await using child = startProcess({ script: file!, args, env: { ...env, ...secrets } });
        expect(await child.exited()).toMatchObject({ code: 1 });
        return child.output.trim();
      };
      expect(await refusalOf(...others)).toMatch(new RegExp(`^${missing} is required with NODE_ENV=production`));
      if (next !== undefined) expect(await refusalOf(...others, missing)).toMatch(new RegExp(`^${next} `));
    },
  );

  test.each(['edge', 'admin', 'migrate'])('sources newer than the installed packages: %s', async (program) => {
    const lacksPackages = `import { registerHooks } from 'node:module'; registerHooks({ resolve: (name, context, next) =>
      next(/^(@|pg$|pino$|fastify$)/.test(name) ? 'not-installed' : name, context) })`;
    const env = { ...home.env(), DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' };
    await using child = startProcess({
      script: `services/cmd/${program}.ts`,
      ...(program === 'admin' && { args: ['users', 'list'] }),
      env: {
        ...env,
        RPC_URLS: rpcUrls(...serviceNames),
        NODE_OPTIONS: `--import "data:text/javascript,${encodeURIComponent(lacksPackages)}"`,
      },
    });
    expect(await child.exited()).toMatchObject({ code: 1 });
    expect(child.output.trim()).toMatch(/^Cannot find package 'not-installed' [^\n]*: install [^\n]* `npm ci`\.$/);
  });

  test('a host whose name cannot be resolved', async () => {
    await using database = await createTestDatabase();
    const env = {
      ...home.env(),
      DATABASE_URL: database.url,
      HOST: 'nowhere.invalid',
      PUBLIC_URL: 'http://gateway.test',
    };
    await using child = startProcess({ script, env });
    expect(await child.exited()).toMatchObject({ code: 1 });
    expect(child.output.trim()).toMatch(/^The address to listen on is not one of this machine's: set HOST\.$/);
  });

  test('a password for the first operator that no user may have, or an invalid email address', async () => {
    await using database = await createTestDatabase();
    const weak = { ...home.env(), DATABASE_URL: database.url, BOOTSTRAP_PASSWORD: 'all-lower-case' };
    await using refused = startProcess({ script, env: weak });
    expect(await refused.exited()).toMatchObject({ code: 1 });
    expect(refused.output.trim()).toBe(
      'BOOTSTRAP_PASSWORD: The password is too weak: it needs an upper-case letter and a digit.',
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
    const env = { ...home.env(), DATABASE_URL: database.url };
    const file = join(home.path, 'secrets', 'key_pepper');
    const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
    await using first = startProcess({ script, env });
    const call = restCalls(await urlOf(first));
    const { access_token: session } = await call('POST', '/api/v1/auth/login', '', owner);
    const { key } = await call('POST', '/api/v1/api-keys', session, { name: 'kept' });
    await first.kill();

    renameSync(file, `${file}.kept`);
    for (const changed of [{}, { KEY_PEPPER: givenSecrets.KEY_PEPPER }]) {
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
    const env = { ...home.env(), ...givenSecrets, DATABASE_URL: database.url, DATA_DIR: '/etc/hostname/data' };
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
      const env = { ...home.env(), DATABASE_URL: database.url, PORT: String(port), ...further };
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
    const env = { ...home.env(), DATABASE_URL: database.url, BOOTSTRAP_PASSWORD: given };
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
    const env = { ...home.env(), DATABASE_URL: database.url, BOOTSTRAP_PASSWORD: undefined, WORKERS: '2', PORT: port };
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
    env: { ...process.env, ...home.env(), DATABASE_URL: database.url, PORT: String(port), LOG_LEVEL: 'trace' },
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
    const env = {
      ...home.env(),
      DATABASE_URL: database.url,
      BOOTSTRAP_PASSWORD: undefined,
      UPSTREAM_BASE_URL: upstream,
    };
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
    env: { ...home.env(), DATABASE_URL: database.url, HOST: host, WORKERS: workers },
  });
  const [, url] = await child.waitForLine(/API and portal\s+(\S+)/);
  expect(url!.replace(/\d+$/, '')).toBe(`http://${printed}:`);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
});

describe('the first process of WORKERS', () => {
  test('is reached by them, and by operators on its machine, even if RPC_TLS_CERT has another name and no known authority', async () => {
    await using database = await createTestDatabase();
    const { cert, key } = selfSignedCertificate();
    writeFileSync(join(home.path, 'cert.pem'), cert);
    writeFileSync(join(home.path, 'key.pem'), key);
    const env = {
      ...home.env(),
      WORKERS: '2',
      DATABASE_URL: database.url,
      // A name that is not in the certificate.
      RPC_HOST: '127.0.0.2',
      RPC_PORT: String(await freePort()),
      RPC_TLS_CERT: join(home.path, 'cert.pem'),
      RPC_TLS_KEY: join(home.path, 'key.pem'),
    };
    await using child = startProcess({ script, env });
    await restCalls(await urlOf(child))('POST', '/api/v1/auth/login', '', owner);
    const admin = (with_: object) =>
      startProcess({ script: 'services/cmd/admin.ts', args: ['organizations', 'list'], env: { ...env, ...with_ } });
    await using trusting = admin({});
    expect(await trusting.exited(), trusting.output).toMatchObject({ code: 0 });
    // Only that very certificate is trusted, not another one with the same contents.
    const other = selfSignedCertificate();
    writeFileSync(join(home.path, 'other.pem'), other.cert);
    writeFileSync(join(home.path, 'other-key.pem'), other.key);
    await using astray = admin({
      RPC_TLS_CERT: join(home.path, 'other.pem'),
      RPC_TLS_KEY: join(home.path, 'other-key.pem'),
    });
    expect(await astray.exited()).toMatchObject({ code: 1 });
  });

  test.runIf(process.platform === 'linux')(
    'is reached by one that replaces a dead one, even if another certificate has been put in the place of its own',
    async () => {
      await using database = await createTestDatabase();
      const [cert, key] = [join(home.path, 'renewed.pem'), join(home.path, 'renewed-key.pem')];
      const write = (): void => {
        const made = selfSignedCertificate();
        writeFileSync(cert, made.cert);
        writeFileSync(key, made.key);
      };
      write();
      const tls = { RPC_TLS_CERT: cert, RPC_TLS_KEY: key };
      await using child = startProcess({
        script,
        env: { ...home.env(), ...tls, WORKERS: '2', DATABASE_URL: database.url },
      });
      const call = restCalls(await urlOf(child));
      write();
      for (const pid of pidsOfWorkers(child.pid)) process.kill(pid, 'SIGKILL');
      const listened = () => child.output.split('The edge listens').length - 1;
      await waitFor(() => listened() === 4, { description: 'two others to be ready', timeoutMs: 30_000 });
      await call('POST', '/api/v1/auth/login', '', owner);
    },
  );

  test('is ready once they listen', async () => {
    await using database = await createTestDatabase();
    const [port, metricsPort] = [await freePort(), await freePort()];
    const ports = { PORT: String(port), METRICS_PORT: String(metricsPort) };
    await using child = startProcess({
      script,
      env: { ...home.env(), ...ports, WORKERS: '2', DATABASE_URL: database.url },
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
});
