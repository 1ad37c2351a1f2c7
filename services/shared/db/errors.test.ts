import { expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { bothRefused, severalAddresses, useSeveralAddresses } from '../../../test/support/several-addresses.ts';
import { silentLogger as logger } from '../../../test/support/silent-logger.ts';
import { checkReachable } from './connection.ts';
import { databaseError } from './errors.ts';
import { openServiceDatabase } from './orm.ts';

test('a server whose name has several addresses is unreachable if all of them refuse, and each is reported', async () => {
  using _ = useSeveralAddresses();
  const connection = `postgresql://somebody@${severalAddresses}:1/database`;
  await expect(checkReachable(connection)).rejects.toThrow(bothRefused);

  const database = await openServiceDatabase({ service: 'keys', connection, entities: [], logger });
  const outOfReach = { reason: ErrorReason.OVERLOADED, details: { internal: expect.stringMatching(bothRefused) } };
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
