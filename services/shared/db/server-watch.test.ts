import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Migration } from '@mikro-orm/migrations';
import pg from 'pg';
import { from } from 'pg-copy-streams';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { signalPostgres } from '../../../test/support/signal-postgres.ts';
import { silentLogger as logger } from '../../../test/support/silent-logger.ts';
import { startStopwatch } from '../../../test/support/stopwatch.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from './embedded.ts';
import { migrateAll } from './migrate.ts';
import { openServiceDatabase, type ServiceDatabase } from './orm.ts';
import { sqlTransaction, transaction } from './transaction.ts';

class CreateWritten extends Migration {
  override up(): void {
    this.addSql('create table written (number integer)');
  }
}

const overloaded = { reason: ErrorReason.OVERLOADED };
const copyOne = async (client: pg.PoolClient): Promise<void> => {
  const copy = client.query(from('copy written from stdin'));
  copy.end('1\n');
  await once(copy, 'finish');
};

let folder: string;
let server: EmbeddedPostgres;
let database: ServiceDatabase;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'mg-watch-'));
  server = await startEmbeddedPostgres({ dataDir: folder, logger, fast: true });
  await migrateAll(
    server.url,
    [{ service: 'watched', migrations: [{ name: '0001-create', class: CreateWritten }] }],
    logger,
  );
  database = await openServiceDatabase({ service: 'watched', connection: server.url, entities: [], logger });
});

afterAll(async () => {
  await database?.close();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

test('a statement that is only slow is left alone', async () => {
  const slow = database.query({ text: 'select pg_sleep(1.5)' });
  await expect(slow).resolves.toMatchObject({ rowCount: 1 });
});

test('a statement that exceeds statement_timeout is refused as overloaded', async () => {
  const hasty = await openServiceDatabase({
    service: 'watched',
    connection: server.url,
    entities: [],
    logger,
    statementTimeoutMs: 50,
  });
  await expect(hasty.query({ text: 'select pg_sleep(10)' })).rejects.toMatchObject(overloaded);
  await hasty.close();
});

test.each<[what: string, write: () => Promise<unknown>]>([
  ['a statement', () => sqlTransaction(database, (client) => client.query('insert into written values (1)'))],
  ['a statement of the ORM', () => transaction(database, (em) => em.execute('insert into written values (1)'))],
  ['COPY', () => sqlTransaction(database, copyOne)],
])('a connection on which %s found a read-only database is not used again', async (_what, write) => {
  const admin = new pg.Client({ connectionString: server.url, options: '-c default_transaction_read_only=off' });
  await admin.connect();
  const { rows } = await admin.query('select current_database() as name');
  const readOnly = (value: 'on' | 'off') =>
    admin.query(`alter database ${rows[0].name} set default_transaction_read_only = ${value}`);
  try {
    await write();
    await readOnly('on');
    await admin.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'modelgateway-watched'`,
    );
    await expect.poll(() => write().catch((error) => error.details?.internal)).toContain('read-only transaction');
    await readOnly('off');
    await write();
  } finally {
    await readOnly('off');
    await admin.end();
  }
});

test.runIf(process.platform === 'linux')(
  'a frozen server: everybody is refused within a second, and served when it thaws',
  async () => {
    // Idle connections that look sound to a pool.
    await Promise.all([database.query({ text: 'select 1' }), database.em().execute('select 1')]);
    const begun = Promise.withResolvers<void>();
    const frozen = Promise.withResolvers<void>();
    const copying = sqlTransaction(database, async (client) => {
      begun.resolve();
      await frozen.promise;
      await copyOne(client);
    });
    await begun.promise;
    signalPostgres(server.pid(), 'SIGSTOP');
    frozen.resolve();
    try {
      using watch = startStopwatch();
      const refused = await Promise.allSettled([
        database.query({ text: 'select 1' }),
        sqlTransaction(database, (client) => client.query('select 1')),
        transaction(database, (em) => em.execute('select 1')),
        ...Array.from({ length: 20 }, () => sqlTransaction(database, (client) => client.query('select 1'))),
      ]);
      const tookMs = watch.ms;
      for (const outcome of refused) expect(outcome).toMatchObject({ status: 'rejected', reason: overloaded });
      // The promise is 1 s; the rest is for a busy machine.
      expect(tookMs).toBeLessThan(2_500);
      await expect(Promise.race([copying, delay(4_000)])).rejects.toMatchObject(overloaded);
    } finally {
      signalPostgres(server.pid(), 'SIGCONT');
    }
    const answer = (): Promise<unknown> => transaction(database, (em) => em.execute('select 1 as one'));
    await vi.waitFor(async () => expect(await answer()).toEqual([{ one: 1 }]), { timeout: 30_000, interval: 50 });
  },
);

test('a server that was killed serves again within seconds of its return', async () => {
  await database.query({ text: 'select 1' });
  const killed = server.pid();
  process.kill(killed, 'SIGKILL');
  await vi.waitFor(() => expect(server.pid()).not.toBe(killed), { timeout: 30_000, interval: 20 });
  const answer = (): Promise<unknown> => database.query({ text: 'select 1 as one' });
  await vi.waitFor(async () => expect(await answer()).toMatchObject({ rows: [{ one: 1 }] }), {
    timeout: 30_000,
    interval: 20,
  });
});
