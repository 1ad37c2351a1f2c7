import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { StartError } from '#shared/start-error.ts';
import { selfSignedCertificate } from '../../../test/support/certificate.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { checkReachable } from './connection.ts';

const own = selfSignedCertificate();
let folder: string;
let database: TestDatabase;
/** Speaks TLS in front of the test's Postgres, which has a Unix socket alone. */
let tlsServer: Server;
const warnings: Error[] = [];
const keepWarning = (warning: Error) => void warnings.push(warning);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'connection-'));
  writeFileSync(join(folder, 'own.pem'), own.ca);
  writeFileSync(join(folder, 'other.pem'), selfSignedCertificate().ca);
  database = await createTestDatabase();
  const behind = join(new URL(database.url).searchParams.get('host')!, '.s.PGSQL.5432');
  tlsServer = createServer((socket) => {
    // The SSLRequest (Postgres documentation, Message Formats), answered with yes.
    socket.once('data', () => {
      socket.write('S');
      const secure = new TLSSocket(socket, { isServer: true, key: own.key, cert: own.cert });
      joined(secure, connect(behind));
    });
    socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => tlsServer.listen(0, '127.0.0.2', resolve));
  process.on('warning', keepWarning);
});
afterAll(async () => {
  process.off('warning', keepWarning);
  tlsServer?.close();
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

/** The database by TLS, at an address which its certificate does not name. */
const urlWith = (parameters: string): string => {
  const { port } = tlsServer.address() as AddressInfo;
  return `postgresql://postgres@127.0.0.2:${port}/${database.name}?${parameters}`;
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
  if (works) expect(outcome).toBeUndefined();
  else expect(outcome).toBeInstanceOf(StartError);
  expect(warnings).toEqual([]);
});
