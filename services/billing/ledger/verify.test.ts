import pg from 'pg';
import { expect, test } from 'vitest';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { silentLogger } from '../../../test/support/keys.ts';
import { createTestDatabase } from '../../../test/support/postgres.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { verifyLedgerOf } from './verify.ts';

test('the ledger is verified to its end, though a statement takes longer than requests may', async () => {
  const testDatabase = await createTestDatabase();
  const database = await openServiceDatabase({
    service: 'billing',
    connection: testDatabase.url,
    entities: [],
    logger: silentLogger,
    statementTimeoutMs: 50,
  });
  const rival = new pg.Client({ connectionString: testDatabase.url });
  await rival.connect();
  await rival.query('begin; lock table billing.entries in access exclusive mode');
  const verified = verifyLedgerOf(database, null);
  verified.catch(() => {});
  await waitFor(
    async () =>
      (
        await rival.query(
          `select from pg_locks where not granted and relation = 'billing.entries'::regclass
             and clock_timestamp() - waitstart > interval '200 ms'`,
        )
      ).rowCount,
    { description: 'a statement that has waited for long' },
  );
  await rival.query('commit');
  expect((await verified).faults).toEqual([]);
  await rival.end();
  await database.close();
  await testDatabase.drop();
});
