import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { renameSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { serviceNames } from '#shared/service-names.ts';
import { startFailure } from '../../services/cmd/start-failure.ts';
import { selfSignedCertificate } from '../support/certificate.ts';
import { freePort, hasIpv6 } from '../support/free-port.ts';
import { owner, startTestGateway } from '../support/gateway.ts';
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

  test('a weak password for the first operator, a lost or changed pepper of a database with keys, an email address of somebody else', async () => {
    await using database = await createTestDatabase();
    const start = (env: Record<string, string> = {}) =>
      startTestGateway({ databaseUrl: database.url, env: { DATA_DIR: home.path, KEY_PEPPER: '', ...env } });
    const weak = { BOOTSTRAP_PASSWORD: 'all-lower-case' };
    const pepper = join(home.path, 'secrets', 'key_pepper');
    const refusalOf = async (env?: Record<string, string>) => {
      const refusal = await start(env).then(
        (gateway) => gateway[Symbol.asyncDispose](),
        (error: Error) => startFailure(error),
      );
      expect(refusal).toMatch(/^.+$/);
      return refusal;
    };
    expect(await refusalOf(weak)).toBe(
      'BOOTSTRAP_PASSWORD: The password is too weak: it needs an upper-case letter and a digit.',
    );

    let key: string;
    {
      await using first = await start();
      ({ key } = await first.createKey(await first.login()));
    }

    renameSync(pepper, `${pepper}.kept`);
    for (const changed of [undefined, { KEY_PEPPER: givenSecrets.KEY_PEPPER }]) {
      expect(await refusalOf(changed)).toMatch(
        /^KEY_PEPPER differs from the one .* \(version 1\).*: restore it \(a generated .*$/,
      );
    }
    renameSync(`${pepper}.kept`, pepper);
    {
      // Keys work again, and once there is an operator the password is ignored.
      await using restored = await start(weak);
      const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
      expect((await restored.call('POST', '/v1/chat/completions', key, chat)).json.choices).toHaveLength(1);
    }

    await rowsOf(database.url, 'update auth.users set operator = false');
    expect(await refusalOf()).toBe(
      'BOOTSTRAP_EMAIL: A user with this email address exists, but is not a platform operator.',
    );
  });

  test('a data folder that cannot hold a journal, with the database elsewhere', async () => {
    await using database = await createTestDatabase();
    const env = { ...home.env(), ...givenSecrets, DATABASE_URL: database.url, DATA_DIR: '/etc/hostname/data' };
    await using child = startProcess({ script, env });
    expect(await child.exited()).toMatchObject({ code: 1 });
    expect(child.output.trim()).toMatch(/^DATA_DIR \/etc\/hostname\/data cannot be written \(ENOTDIR\): [^\n]*$/);
  });

  test('a taken port', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    try {
      await once(taken, 'listening');
      const { port } = taken.address() as AddressInfo;
      const env = { ...home.env(), PORT: String(port), RPC_URLS: rpcUrls(...serviceNames) };
      await using child = startProcess({ script: 'services/cmd/edge.ts', env });
      expect(await child.exited()).toMatchObject({ code: 1 });
      expect(child.output.trim()).toMatch(new RegExp(`^Port ${port} is taken: [^\\n]* PORT [^\\n]*$`));
    } finally {
      taken.close();
    }
  });
});

test('a first start prints an address to paste, whatever HOST is, and the password that it generated', async () => {
  await using database = await createTestDatabase();
  const env = {
    ...home.env(),
    DATABASE_URL: database.url,
    BOOTSTRAP_PASSWORD: undefined,
    HOST: hasIpv6 ? '::' : '0.0.0.0',
  };
  await using child = startProcess({ script, env });
  const [, url] = await child.waitForLine(/API and portal\s+(\S+)/);
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  await child.waitForLine(/"model":"sandbox-chat"/);
  const [, password] = /First sign-in\s+owner@example\.com\s+(\S{8,})/.exec(child.output)!;
  await restCalls(url!)('POST', '/api/v1/auth/login', '', { email: owner.email, password });
});

test('a generated password is shown even if a start of WORKERS fails afterwards, for a taken port', async () => {
  await using database = await createTestDatabase();
  const taken = createServer().listen(0, '127.0.0.1');
  try {
    await once(taken, 'listening');
    const port = String((taken.address() as AddressInfo).port);
    const env = { ...home.env(), DATABASE_URL: database.url, BOOTSTRAP_PASSWORD: undefined, WORKERS: '2', PORT: port };
    await using child = startProcess({ script, env });
    expect(await child.exited()).toMatchObject({ code: 1 });
    expect(child.output).toMatch(/First sign-in\s+owner@example\.com\s+\S{8,}/);
    expect(child.output).toMatch(new RegExp(`^Port ${port} is taken: [^\\n]* PORT [^\\n]*$`, 'm'));
  } finally {
    taken.close();
  }
});

test('a gateway whose output nobody reads any more keeps running', async () => {
  await using database = await createTestDatabase();
  const port = await freePort();
  const child = spawn(process.execPath, [script], {
    env: { ...process.env, ...home.env(), DATABASE_URL: database.url, PORT: String(port), LOG_LEVEL: 'trace' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.stdout.destroy();
  child.stderr.destroy();
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

test('the first process of WORKERS is reached by them, by those that replace dead ones, and by operators on its machine, whatever RPC_TLS_CERT has become', async () => {
  await using database = await createTestDatabase();
  const writeCertificate = (name: string) => {
    const made = selfSignedCertificate();
    const files = { RPC_TLS_CERT: join(home.path, `${name}.pem`), RPC_TLS_KEY: join(home.path, `${name}-key.pem`) };
    writeFileSync(files.RPC_TLS_CERT, made.cert);
    writeFileSync(files.RPC_TLS_KEY, made.key);
    return files;
  };
  const env = {
    ...home.env(),
    ...writeCertificate('own'),
    WORKERS: '2',
    DATABASE_URL: database.url,
    // A name that is not in the certificate, which no known authority has signed.
    RPC_HOST: '127.0.0.2',
    RPC_PORT: String(await freePort()),
  };
  await using child = startProcess({ script, env });
  const call = restCalls(await urlOf(child));
  await call('POST', '/api/v1/auth/login', '', owner);
  const admin = (certificate: object) =>
    startProcess({
      script: 'services/cmd/admin.ts',
      args: ['organizations', 'list'],
      env: { ...env, ...certificate },
    });
  await using trusting = admin({});
  expect(await trusting.exited(), trusting.output).toMatchObject({ code: 0 });
  // Only that very certificate is trusted, not another one with the same contents.
  await using astray = admin(writeCertificate('other'));
  expect(await astray.exited()).toMatchObject({ code: 1 });

  if (process.platform !== 'linux') return;
  writeCertificate('own');
  for (const pid of pidsOfWorkers(child.pid)) process.kill(pid, 'SIGKILL');
  const listened = () => child.output.split('The edge listens').length - 1;
  await waitFor(() => listened() === 4, { description: 'two others to be ready', timeoutMs: 30_000 });
  await call('POST', '/api/v1/auth/login', '', owner);
});
