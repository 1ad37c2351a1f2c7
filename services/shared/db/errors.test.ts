import dns from 'node:dns';
import { afterEach, expect, test, vi } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { createLogger } from '#shared/logger.ts';
import { checkReachable } from './connection.ts';
import { databaseError } from './errors.ts';
import { openServiceDatabase } from './orm.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

test('a server whose name has several addresses is unreachable if all of them refuse, and each is reported', async () => {
  const addresses = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }));
  // As for localhost on most machines, or a name with an address in each zone.
  vi.spyOn(dns, 'lookup').mockImplementation(((
    _host: string,
    _options: unknown,
    found: (error: null, addresses: unknown) => void,
  ) => found(null, addresses)) as unknown as typeof dns.lookup);
  const connection = 'postgresql://somebody@db.example:1/database';
  const each = /127\.0\.0\.1:1\b.*127\.0\.0\.2:1\b/;
  await expect(checkReachable(connection)).rejects.toThrow(each);

  const logger = createLogger({ level: 'silent', name: 'test' });
  const database = await openServiceDatabase({ service: 'keys', connection, entities: [], logger });
  const outOfReach = { reason: ErrorReason.OVERLOADED, details: { internal: expect.stringMatching(each) } };
  await expect(database.query({ text: 'select 1' })).rejects.toMatchObject(outOfReach);
  const failure: unknown = await database
    .em()
    .execute('select 1')
    .catch((error: unknown) => error);
  expect(databaseError(failure)).toMatchObject(outOfReach);
  await database.close();
});

test.for([
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
  'EADDRNOTAVAIL',
  'EAGAIN',
  'EPERM',
  'ENETDOWN',
  'EHOSTDOWN',
  'EAI_FAIL',
])('a connection that this machine cannot make (%s) means that the database is unreachable', (code) => {
  const error = Object.assign(new Error(`connect ${code}`), { code, syscall: 'connect' });
  expect(databaseError(error)).toMatchObject({ reason: ErrorReason.OVERLOADED });
});
