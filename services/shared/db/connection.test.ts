import { once } from 'node:events';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates, TLSSocket } from 'node:tls';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { StartError } from '#shared/start-error.ts';
import { selfSignedCertificate } from '../../../test/support/certificate.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { silentLogger as logger } from '../../../test/support/silent-logger.ts';
import { checkReachable, clientConfig } from './connection.ts';
import { migrateAll } from './migrate.ts';
import { openServiceDatabase } from './orm.ts';

const own = selfSignedCertificate();
let folder: string;
let database: TestDatabase;
/** TLS servers in front of the test's Postgres, which has only a Unix socket; only the second one's certificate names its address. */
let tlsServer: Server;
let namedServer: Server;
const warnings: Error[] = [];
const keepWarning = (warning: Error) => void warnings.push(warning);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'connection-'));
  writeFileSync(join(folder, 'own.pem'), own.ca);
  writeFileSync(join(folder, 'other.pem'), selfSignedCertificate().ca);
  database = await createTestDatabase();
  const behind = join(new URL(database.url).searchParams.get('host')!, '.s.PGSQL.5432');
  const speakTls = (socket: Socket): void => {
    // The SSLRequest (Postgres documentation, Message Formats), answered with yes.
    socket.once('data', () => {
      socket.write('S');
      const secure = new TLSSocket(socket, { isServer: true, key: own.key, cert: own.cert });
      joined(secure, connect(behind));
    });
    socket.on('error', () => {});
  };
  tlsServer = createServer(speakTls).listen(0, '127.0.0.2');
  namedServer = createServer(speakTls).listen(0, '127.0.0.1');
  await Promise.all([once(tlsServer, 'listening'), once(namedServer, 'listening')]);
  process.on('warning', keepWarning);
});
afterAll(async () => {
  process.off('warning', keepWarning);
  tlsServer?.close();
  namedServer?.close();
  await database?.drop();
  rmSync(folder, { recursive: true, force: true });
});

function joined(one: Socket, other: Socket): void {
  one.pipe(other).pipe(one);
  for (const [socket, peer] of [
    [one, other],
    [other, one],
  ] as const)
    socket.on('error', () => {}).on('close', () => peer.destroy());
}

/** The database over TLS, by default at an address that its certificate does not name. */
const urlWith = (parameters: string, server = tlsServer): string => {
  const { address, port } = server.address() as AddressInfo;
  return `postgresql://postgres@${address}:${port}/${database.name}?${parameters}`;
};

test.each([
  ['require', 'asks no certificate for a name or an authority', 'sslmode=require', true],
  ['prefer', 'is as require', 'sslmode=prefer', true],
  ['no-verify', 'is as require', 'sslmode=no-verify', true],
  ['require with sslrootcert', 'asks for that authority', 'sslmode=require&sslrootcert=OTHER', false],
  ['require with sslrootcert', 'asks for no name', 'sslmode=require&sslrootcert=OWN', true],
  ['verify-ca', 'asks for the authority', 'sslmode=verify-ca&sslrootcert=OTHER', false],
  ['verify-ca', 'asks for no name', 'sslmode=verify-ca&sslrootcert=OWN', true],
  ['verify-full', 'asks for the name', 'sslmode=verify-full&sslrootcert=OWN', false],
  ['verify-full', 'asks for an authority that is known', 'sslmode=verify-full', false],
])('sslmode=%s of DATABASE_URL %s, as in libpq, and without a warning', async (_mode, _does, parameters, works) => {
  const url = urlWith(parameters.replace('OWN', join(folder, 'own.pem')).replace('OTHER', join(folder, 'other.pem')));
  const outcome = await checkReachable(url).catch((error: unknown) => error);
  if (works) expect(outcome).toBeTypeOf('string');
  else expect(outcome).toBeInstanceOf(StartError);
  expect(warnings).toEqual([]);
});

test('an sslmode of DATABASE_URL that there is not is refused, as in libpq', async () => {
  const checked = checkReachable(urlWith(`sslmode=verify_full&sslrootcert=${join(folder, 'own.pem')}`));
  await expect(checked).rejects.toThrow('sslmode=verify_full is none of disable,');
});

test('while the file of sslrootcert cannot be read, connections are made with what it said last', async () => {
  const file = join(folder, 'replaced.pem');
  copyFileSync(join(folder, 'own.pem'), file);
  const url = urlWith(`sslmode=verify-ca&sslrootcert=${file}`);
  await migrateAll(database.url, [], logger);
  const opened = await openServiceDatabase({ service: 'public', connection: url, entities: [], logger });
  try {
    await opened.query({ text: 'select 1' });
    rmSync(file);
    // One is idle; the other is made after both have asked, where nobody would catch what is thrown.
    const both = [1, 2].map(() => opened.query({ text: 'select pg_sleep(0.05)' }));
    await expect(Promise.all(both)).resolves.toHaveLength(2);
  } finally {
    await opened.close();
  }
});

test('options in DATABASE_URL apply to what the gateway does not set itself', async () => {
  const url = new URL(database.url);
  url.searchParams.set('options', '-c work_mem=5MB -c timezone=Asia/Kolkata');
  const client = new pg.Client(
    clientConfig(await checkReachable(url.href), { applicationName: 'test', schema: 'keys' }),
  );
  await client.connect();
  try {
    const { rows } = await client.query(
      "select current_setting('work_mem') as memory, current_setting('timezone') as zone, current_setting('search_path') as path",
    );
    expect(rows).toEqual([{ memory: '5MB', zone: 'UTC', path: 'keys' }]);
  } finally {
    await client.end();
  }
});

test.each([
  ['application_name', 'theirs', 'modelgateway-test'],
  ['statement_timeout', '1', '0'],
  ['lock_timeout', '1', '0'],
  ['idle_in_transaction_session_timeout', '1', '0'],
])('%s in DATABASE_URL, which pg would accept, does not replace the gateway’s own', async (name, value, own) => {
  const url = new URL(database.url);
  url.searchParams.set(name, value);
  const client = new pg.Client(clientConfig(url.href, { applicationName: 'test' }));
  await client.connect();
  try {
    expect((await client.query('select current_setting($1) as own', [name])).rows).toEqual([{ own }]);
  } finally {
    await client.end();
  }
});

test.runIf(process.platform === 'linux')(
  'a connection that waits for a long statement is probed each minute, so that what lies between does not give it up as idle',
  async () => {
    const client = new pg.Client(clientConfig(urlWith('sslmode=require'), { applicationName: 'test' }));
    await client.connect();
    try {
      const { port } = tlsServer.address() as AddressInfo;
      const remote = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
      const [connection] = readFileSync('/proc/net/tcp', 'utf8')
        .split('\n')
        .map((line) => line.trim().split(/\s+/))
        .filter((fields) => fields[2]?.endsWith(remote) && fields[3] === '01');
      // proc_net_tcp: 02 is the keepalive timer, and its time is in hundredths of a second.
      const [timer, when] = connection![5]!.split(':');
      expect(timer).toBe('02');
      expect(Number.parseInt(when!, 16)).toBeLessThanOrEqual(60 * 100);
    } finally {
      await client.end();
    }
  },
);

test('sslrootcert=system in DATABASE_URL checks the name and requires an authority that Node trusts, and a weaker sslmode is refused, as in libpq', async () => {
  const reason = (parameters: string, server?: Server) =>
    checkReachable(urlWith(parameters, server)).then(
      () => 'none',
      (error: Error) => error.message,
    );
  const trusted = getCACertificates('default');
  expect(await reason('sslrootcert=system', namedServer)).toContain('self-signed certificate');
  try {
    setDefaultCACertificates([...trusted, own.ca]);
    for (const parameters of ['sslrootcert=system', 'sslmode=verify-full&sslrootcert=system']) {
      expect(await reason(parameters, namedServer)).toBe('none');
      expect(await reason(parameters)).toContain('127.0.0.2 is not in the cert');
    }
    for (const mode of ['disable', 'prefer', 'require', 'verify-ca']) {
      expect(await reason(`sslmode=${mode}&sslrootcert=system`, namedServer)).toContain(
        `sslrootcert=system needs sslmode=verify-full, not ${mode}`,
      );
    }
  } finally {
    setDefaultCACertificates(trusted);
  }
});

/** The start of a session (Postgres documentation, StartupMessage) without `options`. */
function withoutOptions(startup: Buffer): Buffer {
  const words = startup.toString('latin1', 8).split('\0');
  const at = words.indexOf('options');
  const body = Buffer.from(words.toSpliced(at, 2).join('\0'), 'latin1');
  const head = Buffer.from(startup.subarray(0, 8));
  head.writeInt32BE(8 + body.length);
  return Buffer.concat([head, body]);
}

test.each([
  ['refuses', 'unsupported startup parameter: options'],
  ['ignores', 'they are ignored'],
])('a pooler that %s the settings of a connection stops the start with one line that says so', async (does, reason) => {
  const behind = join(new URL(database.url).searchParams.get('host')!, '.s.PGSQL.5432');
  const refusal = Buffer.from(`SFATAL\0C08P01\0M${reason}\0\0`);
  const pooler = createServer((client) => {
    client.once('data', (startup) => {
      if (does === 'refuses') {
        // An ErrorResponse as PgBouncer sends it.
        const head = Buffer.from('E\0\0\0\0');
        head.writeInt32BE(4 + refusal.length, 1);
        client.end(Buffer.concat([head, refusal]));
        return;
      }
      const server = connect(behind);
      server.write(withoutOptions(startup as Buffer));
      joined(client, server);
    });
  }).listen(0, '127.0.0.1');
  await once(pooler, 'listening');
  const { port } = pooler.address() as AddressInfo;
  const refused = await checkReachable(`postgresql://postgres@127.0.0.1:${port}/${database.name}`).catch(
    (error: unknown) => error,
  );
  pooler.close();
  expect(refused).toBeInstanceOf(StartError);
  expect((refused as Error).message).toBe(
    `Database ${database.name} on 127.0.0.1 is behind a pooler that drops the settings of a connection (${reason}): set DATABASE_URL to Postgres itself.`,
  );
});
