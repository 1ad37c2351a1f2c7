import { defineEntity, IsolationLevel, LockMode } from '@mikro-orm/postgresql';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { lockWaiters } from '../../../test/support/people.ts';
import { createEmptyDatabase, rowsOf, type TestDatabase } from '../../../test/support/postgres.ts';
import { startPostgresProxy } from '../../../test/support/postgres-proxy.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { silentLogger as logger } from '../../../test/support/silent-logger.ts';
import { startStopwatch } from '../../../test/support/stopwatch.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { migrateAll } from './migrate.ts';
import { openServiceDatabase, type ServiceDatabase } from './orm.ts';
import type { Sql } from './sql.ts';
import { sqlTransaction, transaction } from './transaction.ts';

const Account = defineEntity({
  name: 'Account',
  tableName: 'accounts',
  properties: (p) => ({ id: p.integer().primary(), balanceNanoUsd: p.bigint('bigint') }),
});

let testDatabase: TestDatabase;
let database: ServiceDatabase;

beforeAll(async () => {
  testDatabase = await createEmptyDatabase();
  await migrateAll(testDatabase.url, [{ service: 'bank', migrations: [] }], logger);
  const admin = new pg.Client({ connectionString: testDatabase.url });
  await admin.connect();
  await admin.query('create table bank.accounts (id integer primary key, balance_nano_usd bigint not null)');
  await admin.end();
  database = await openServiceDatabase({ service: 'bank', connection: testDatabase.url, entities: [Account], logger });
});

beforeEach(async () => {
  await database.pool.query('delete from accounts');
  await database.pool.query('insert into accounts values (1, 100), (2, 100)');
});

afterAll(async () => {
  await database?.close();
  await testDatabase?.drop();
});

const balances = async (): Promise<bigint[]> => {
  const { rows } = await database.pool.query('select balance_nano_usd from accounts order by id');
  return rows.map((row) => row.balance_nano_usd);
};

/** Resolves for everyone once `count` have come, and at once for those who come later. */
function meetingOf(count: number): () => Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let arrived = 0;
  return () => {
    arrived += 1;
    if (arrived === count) resolve();
    return promise;
  };
}

test('two transactions that deadlock both succeed in the end, in plain SQL', async () => {
  const meet = meetingOf(2);
  let attempts = 0;
  const transfer = (from: number, to: number): Promise<void> =>
    sqlTransaction(database, async (client) => {
      attempts += 1;
      await client.query('update accounts set balance_nano_usd = balance_nano_usd - 10 where id = $1', [from]);
      await meet();
      await client.query('update accounts set balance_nano_usd = balance_nano_usd + 10 where id = $1', [to]);
    });
  await Promise.all([transfer(1, 2), transfer(2, 1)]);
  expect(attempts).toBeGreaterThan(2);
  expect(await balances()).toEqual([100n, 100n]);
});

test('a statement that deadlocks with a transaction succeeds in the end, as the transaction does', async () => {
  const isWaiting = async () => (await lockWaiters({ database: testDatabase })) === 1;
  let statement: Promise<unknown> | undefined;
  await sqlTransaction(database, async (client) => {
    await client.query('update accounts set balance_nano_usd = balance_nano_usd - 10 where id = 2');
    statement ??= database.query({ text: 'update accounts set balance_nano_usd = balance_nano_usd + 1', values: [] });
    await Promise.race([statement, waitFor(isWaiting, { description: 'the statement to wait for the second row' })]);
    await client.query('update accounts set balance_nano_usd = balance_nano_usd - 10 where id = 1');
  });
  await statement;
  expect(await balances()).toEqual([91n, 91n]);
});

test('two transactions that deadlock both succeed in the end, in the ORM', async () => {
  const meet = meetingOf(2);
  let attempts = 0;
  const transfer = (from: number, to: number): Promise<void> =>
    transaction(database, async (em) => {
      attempts += 1;
      const source = await em.findOneOrFail(Account, from, { lockMode: LockMode.PESSIMISTIC_WRITE });
      await meet();
      const target = await em.findOneOrFail(Account, to, { lockMode: LockMode.PESSIMISTIC_WRITE });
      source.balanceNanoUsd -= 10n;
      target.balanceNanoUsd += 10n;
    });
  await Promise.all([transfer(1, 2), transfer(2, 1)]);
  expect(attempts).toBeGreaterThan(2);
  expect(await balances()).toEqual([100n, 100n]);
});

test('a serialization failure is retried on what the other transaction left', async () => {
  const meet = meetingOf(2);
  const double = (): Promise<void> =>
    sqlTransaction(
      database,
      async (client) => {
        const { rows } = await client.query('select balance_nano_usd from accounts where id = 1');
        await meet();
        await client.query('update accounts set balance_nano_usd = $1 where id = 1', [rows[0].balance_nano_usd * 2n]);
      },
      { isolationLevel: IsolationLevel.REPEATABLE_READ },
    );
  await Promise.all([double(), double()]);
  expect(await balances()).toEqual([400n, 100n]);
});

test('a transaction that throws changes nothing, and its connection can be used again', async () => {
  const failing = sqlTransaction(database, async (client) => {
    await client.query('delete from accounts');
    throw new Error('no');
  });
  await expect(failing).rejects.toThrow('no');
  expect(await balances()).toEqual([100n, 100n]);
});

test("a transaction's settings apply until it ends, and not longer", async () => {
  const shown = async (sql: Sql) => {
    const { rows } = await sql.query('select current_setting($1) as timeout', ['statement_timeout']);
    return rows[0].timeout;
  };
  const usual = await shown(database.pool);
  expect(await sqlTransaction(database, shown, { settings: { statement_timeout: 1234 } })).toBe('1234ms');
  // The pool hands out the connection that came back last.
  expect(await shown(database.pool)).toBe(usual);
});

test('if every connection is taken, of the ORM or not, one more request is refused as overloaded within a second', async () => {
  const small = await openServiceDatabase({
    service: 'bank',
    connection: testDatabase.url,
    entities: [],
    logger,
    poolMax: 1,
  });
  try {
    const client = await small.pool.connect();
    using watch = startStopwatch();
    const refusals = [transaction, sqlTransaction].map((run) =>
      expect(run(small, async () => {})).rejects.toMatchObject({
        reason: ErrorReason.OVERLOADED,
        details: { retryAfterMs: 1_000 },
      }),
    );
    await Promise.all(refusals);
    expect(watch.ms).toBeLessThan(2_000);
    client.release();
  } finally {
    await small.close();
  }
});

test('if the server cuts connections in mid-transaction, callers are told to try again, and the pools recover', async () => {
  const small = await openServiceDatabase({
    service: 'bank',
    connection: testDatabase.url,
    entities: [],
    logger,
    poolMax: 1,
  });
  const admin = new pg.Client({ connectionString: testDatabase.url });
  await admin.connect();
  const pidStatement = 'select pg_backend_pid() as pid';
  const cut = (pid: unknown): Promise<unknown> => admin.query('select pg_terminate_backend($1)', [pid]);
  try {
    for (let loss = 0; loss < 2; loss += 1) {
      const plain = sqlTransaction(small, async (client) => {
        await cut((await client.query(pidStatement)).rows[0].pid);
        await client.query('select 1');
      });
      await expect(plain).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
      const inOrm = transaction(small, async (em) => {
        const [row] = await em.execute<{ pid: number }[]>(pidStatement);
        await cut(row!.pid);
        await em.execute('select 1');
      });
      await expect(inOrm).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
    }
    await expect(small.query({ text: 'select 1 as one' })).resolves.toMatchObject({ rows: [{ one: 1 }] });
    await expect(small.em().execute('select 1 as one')).resolves.toEqual([{ one: 1 }]);
  } finally {
    await admin.end();
    await small.close();
  }
});

test('a connection on which the server refuses to begin a transaction is replaced, not lost to the pool for good', async () => {
  const small = await openServiceDatabase({
    service: 'bank',
    connection: testDatabase.url,
    entities: [],
    logger,
    poolMax: 1,
  });
  const inOrm = () => transaction(small, (em) => em.execute('select 1 as one'));
  try {
    await inOrm();
    // A BEGIN is refused, for one, while a failed transaction has not been undone.
    const client = await small.pool.connect();
    await client.query('begin');
    await expect(client.query('select 1 / 0')).rejects.toThrow();
    client.release();
    await expect(inOrm()).rejects.toMatchObject({ code: '25P02' });
    await expect(inOrm()).resolves.toEqual([{ one: 1 }]);
  } finally {
    await small.close();
  }
});

test('a database closes although a transaction was still waiting for its connection, which then fails', async () => {
  await using proxy = await startPostgresProxy(testDatabase.url);
  const closing = await openServiceDatabase({ service: 'bank', connection: proxy.url, entities: [], logger });
  await proxy.set({ kind: 'freeze' });
  const failed = expect(transaction(closing, async () => {})).rejects.toThrow();
  await waitFor(() => proxy.connections === 1, { description: 'the connection to be on its way' });
  const closed = closing.close();
  await proxy.set({ kind: 'pass' });
  await Promise.all([closed, failed]);
});

test('nobody can reopen a closed database, which would leave a connection behind', async () => {
  const options = { service: 'bank', connection: testDatabase.url, entities: [Account], logger };
  const closed = await openServiceDatabase(options);
  const read = () => transaction(closed, (em) => em.find(Account, {}));
  expect(await read()).toHaveLength(2);
  await closed.close();
  await expect(read()).rejects.toThrow();
  await expect(closed.em().find(Account, {})).rejects.toThrow();
});

test('a transaction left open is ended by the server, so that nobody waits long for its locks', async () => {
  const read = 'show idle_in_transaction_session_timeout';
  const [ofOrm] = await transaction(database, (em) => em.execute(read));
  const { rows } = await sqlTransaction(database, (client) => client.query(read));
  expect([ofOrm, rows[0]]).toEqual(Array(2).fill({ idle_in_transaction_session_timeout: '10s' }));
});

test('connections that are lost at the same moment, as all are in a failover, are told in one line, and so is the next that is made', async () => {
  const { logger, lines } = logCollector('info');
  const lost = await openServiceDatabase({ service: 'bank', connection: testDatabase.url, entities: [], logger });
  try {
    const pids = await Promise.all(Array.from({ length: 5 }, () => lost.pool.query('select pg_backend_pid() as pid')));
    await rowsOf(testDatabase.url, 'select pg_terminate_backend(pid) from unnest($1::int[]) pid', [
      pids.map(({ rows }) => rows[0].pid),
    ]);
    await waitFor(() => lost.pool.totalCount === 0, { description: 'the connections to be lost' });
    await lost.pool.query('select 1');
    expect(lines).toMatchObject([{ level: 40 }, { level: 30, failures: 5 }]);
  } finally {
    await lost.close();
  }
});
