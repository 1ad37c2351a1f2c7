import { setImmediate } from 'node:timers/promises';
import { Migration } from '@mikro-orm/migrations';
import pg from 'pg';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { StartError } from '#shared/start-error.ts';
import { createEmptyDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { startPostgresProxy } from '../../../test/support/postgres-proxy.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { silentLogger as logger } from '../../../test/support/silent-logger.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { withDatabase } from '../../../test/support/with-database.ts';
import { checkReachable, unsuitability } from './connection.ts';
import { migrateAll, type ServiceMigrations } from './migrate.ts';
import { openServiceDatabase, type ServiceDatabase } from './orm.ts';

class CreateEntries extends Migration {
  override up(): void {
    this.addSql('create table entries (id integer primary key, text text not null)');
    this.addSql('revoke update, delete on entries from modelgateway_app');
  }
}

class CreateNotes extends Migration {
  override up(): void {
    this.addSql('create table notes (id bigint generated always as identity primary key, text text not null)');
  }
}

class Fail extends Migration {
  override up(): void {
    this.addSql('create table half_done (id integer)');
    this.addSql('insert into no_such_table values (1)');
  }
}

class Sleep extends Migration {
  override up(): void {
    this.addSql('select pg_sleep(0.1)');
  }
}

class WidenEntries extends Migration {
  override up(): void {
    this.addSql('alter table entries add column note text');
  }
}

class LoseConnection extends Migration {
  override up(): void {
    this.addSql('select pg_terminate_backend(pg_backend_pid())');
  }
}

class CollideTwice extends Migration {
  override up(): void {
    this.addSql('create table half_done (id integer)');
    // A sequence keeps its place when a transaction is undone.
    this.addSql(`do $$ begin
      if nextval('public.collisions') <= 2 then raise 'deadlock detected' using errcode = 'deadlock_detected'; end if;
    end $$`);
  }
}

const ledger: ServiceMigrations = {
  service: 'ledger',
  migrations: [
    { name: '0001-create-entries', class: CreateEntries },
    { name: '0002-create-notes', class: CreateNotes },
  ],
};
const other: ServiceMigrations = {
  service: 'other',
  migrations: [{ name: '0001-create-notes', class: CreateNotes }],
};

let testDatabase: TestDatabase;
let admin: pg.Client;
let opened: ServiceDatabase | undefined;

beforeEach(async () => {
  testDatabase = await createEmptyDatabase();
  admin = new pg.Client({ connectionString: testDatabase.url });
  await admin.connect();
});

afterEach(async () => {
  vi.useRealTimers();
  await opened?.close();
  opened = undefined;
  await admin?.end();
  await testDatabase?.drop();
});

const recorded = async (schema: string): Promise<string[]> => {
  const { rows } = await admin.query(`select name from ${schema}.schema_migrations order by id`);
  return rows.map(({ name }) => name);
};

test('each service gets its migrations, once, in a schema of its own', async () => {
  await migrateAll(testDatabase.url, [ledger, other], logger);
  await migrateAll(testDatabase.url, [ledger, other], logger);
  expect(await recorded('ledger')).toEqual(['0001-create-entries', '0002-create-notes']);
  expect(await recorded('other')).toEqual(['0001-create-notes']);
  const { rows } = await admin.query("select schemaname from pg_tables where tablename = 'notes' order by 1");
  expect(rows).toEqual([{ schemaname: 'ledger' }, { schemaname: 'other' }]);
});

test('a later migration is applied to a database that has the earlier ones', async () => {
  await migrateAll(testDatabase.url, [{ service: 'ledger', migrations: ledger.migrations.slice(0, 1) }], logger);
  await migrateAll(testDatabase.url, [ledger], logger);
  expect(await recorded('ledger')).toEqual(['0001-create-entries', '0002-create-notes']);
});

test('a database migrated by a newer version stops the start with one line that says so, and is left as it is', async () => {
  await migrateAll(testDatabase.url, [ledger], logger);
  const older: ServiceMigrations = { service: 'ledger', migrations: ledger.migrations.slice(0, 1) };
  const refusal: unknown = await migrateAll(testDatabase.url, [other, older], logger).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(StartError);
  expect((refusal as Error).message).toMatch(
    /^The database was migrated by a newer version .* \(ledger 0002-create-notes\): start that version, [^\n]*\.$/,
  );
  const { rows } = await admin.query("select to_regnamespace('other') as found");
  expect(rows).toEqual([{ found: null }]);
});

test('the log names all migrations of a service in one line, so that a first start does not begin with fifty', async () => {
  const { logger: collecting, lines } = logCollector();
  await migrateAll(testDatabase.url, [ledger, other], collecting);
  const names = ({ service, migrations }: ServiceMigrations) => ({
    service,
    migrations: migrations.map((one) => one.name),
  });
  expect(lines).toMatchObject([names(ledger), names(other)]);
});

test('only someone who migrates a database that an older version is still using is told so', async () => {
  const { logger: collecting, lines } = logCollector();
  const older: ServiceMigrations = { service: 'ledger', migrations: ledger.migrations.slice(0, 1) };
  await migrateAll(testDatabase.url, [older], collecting);
  opened = await openServiceDatabase({ service: 'ledger', connection: testDatabase.url, entities: [], logger });
  await opened.pool.query('select from entries');
  await migrateAll(testDatabase.url, [older], collecting);
  expect(lines.map(({ msg }) => msg)).toEqual(['migrated']);
  await migrateAll(testDatabase.url, [ledger], collecting);
  expect(lines.map(({ msg }) => msg).slice(1)).toEqual([
    'migrated',
    'processes of an older version still use the database that was just migrated: stop them',
  ]);
});

test('gateways that start at the same time migrate one after the other', async () => {
  await Promise.all(Array.from({ length: 4 }, () => migrateAll(testDatabase.url, [ledger, other], logger)));
  expect(await recorded('ledger')).toEqual(['0001-create-entries', '0002-create-notes']);
});

test('a migration that fails leaves nothing behind and names its service', async () => {
  const broken: ServiceMigrations = { service: 'broken', migrations: [{ name: '0001-fail', class: Fail }] };
  await expect(migrateAll(testDatabase.url, [broken], logger)).rejects.toThrow('A migration of broken failed');
  const { rows } = await admin.query("select to_regclass('broken.half_done') as found");
  expect(rows).toEqual([{ found: null }]);
});

test('a migration that loses its connection ends the start in one line, and the next start migrates', async () => {
  const cut: ServiceMigrations = { service: 'ledger', migrations: [{ name: '0001-lose', class: LoseConnection }] };
  const refusal: unknown = await migrateAll(testDatabase.url, [cut], logger).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(StartError);
  expect((refusal as Error).message).toMatch(/^[^\n]*A migration of ledger failed: [^\n]*start again\.$/);
  await migrateAll(testDatabase.url, [ledger], logger);
  expect(await recorded('ledger')).toEqual(['0001-create-entries', '0002-create-notes']);
});

test('a migration that deadlocks with processes at work is run again, and if it goes on, the start ends in one line that says to stop them', async () => {
  const colliding: ServiceMigrations = {
    service: 'ledger',
    migrations: [{ name: '0001-collide', class: CollideTwice }],
  };
  await admin.query('create sequence public.collisions minvalue -1000 start -1000');
  const refusal: unknown = await migrateAll(testDatabase.url, [colliding], logger).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(StartError);
  expect((refusal as Error).message).toMatch(
    /^The database could not be migrated \(A migration of ledger failed: [^\n]*stop them and start again\.$/,
  );
  await admin.query("select setval('public.collisions', 1, false)");
  await migrateAll(testDatabase.url, [colliding], logger);
  expect(await recorded('ledger')).toEqual(['0001-collide']);
});

test('a start that waits for another one, or for a lock on a table, says so for as long as it waits', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const { logger: collecting, lines } = logCollector();
  const isHeldUp = async (lockType: string): Promise<boolean> => {
    const { rows } = await admin.query(
      `select from pg_locks join pg_database on pg_database.oid = database
       where datname = current_database() and locktype = $1 and not granted`,
      [lockType],
    );
    return rows.length > 0;
  };
  await migrateAll(testDatabase.url, [ledger], collecting);
  lines.splice(0);
  const widened = [...ledger.migrations, { name: '0003-widen-entries', class: WidenEntries }];

  await admin.query('begin; lock table ledger.entries; select pg_advisory_lock(7205759403792794)');
  const starting = migrateAll(testDatabase.url, [{ service: 'ledger', migrations: widened }], collecting);
  starting.catch(() => {});
  await waitFor(() => isHeldUp('advisory'), { description: 'a start behind another' });
  vi.advanceTimersByTime(10_000);
  await admin.query('select pg_advisory_unlock(7205759403792794)');
  await waitFor(() => isHeldUp('relation'), { description: 'a migration behind a lock' });
  vi.advanceTimersByTime(5_000);
  await admin.query('commit');
  await starting;
  vi.advanceTimersByTime(60_000);

  const msg = 'the start is waiting for the migration of the database';
  const byAnother = { msg, by: 'another start, in a session modelgateway-migrate' };
  expect(lines).toMatchObject([byAnother, byAnother, { msg, by: 'migrations of ledger' }, { msg: 'migrated' }]);
});

test('a start goes on if Postgres takes longer for a connection than the limit', async () => {
  await using proxy = await startPostgresProxy(testDatabase.url);
  const starting = migrateAll(proxy.url, [ledger], logger);
  starting.catch(() => {});
  while (proxy.accepted < 1) await setImmediate();
  await proxy.set({ kind: 'freeze' });
  await waitFor(() => proxy.accepted > 1, { description: 'another connection', timeoutMs: 20_000 }).finally(() =>
    proxy.set({ kind: 'pass' }),
  );
  await starting;
  expect(await recorded('ledger')).toEqual(['0001-create-entries', '0002-create-notes']);
});

test('an unreachable database stops the start in one line, without the password', async () => {
  const url = 'postgresql://somebody:secret@127.0.0.1:1/nowhere';
  const refusal: unknown = await checkReachable(url).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(StartError);
  expect((refusal as Error).message).toMatch(
    /^Postgres is out of reach \(database nowhere on 127\.0\.0\.1: .*\): start it/,
  );
  expect((refusal as Error).message).not.toContain('secret');
});

test('a read-only database, or one that cannot store all text, stops the start with one line that says what to do', async () => {
  const refusal = (url: string): Promise<unknown> => checkReachable(url).catch((error: unknown) => error);
  await admin.query(`alter database ${testDatabase.name} set default_transaction_read_only = on`);
  const readOnly = await refusal(testDatabase.url);
  expect(readOnly).toBeInstanceOf(StartError);
  expect((readOnly as Error).message).toMatch(/^Database mgtest_\w+ on .* is read-only: set DATABASE_URL to .*\.$/);

  const latin = `${testDatabase.name}_latin`;
  await admin.query(`create database ${latin} template template0 encoding 'LATIN1' locale_provider libc locale 'C'`);
  try {
    const unencodable = await refusal(withDatabase(testDatabase.url, latin));
    expect(unencodable).toBeInstanceOf(StartError);
    expect((unencodable as Error).message).toMatch(/ has the encoding LATIN1, .* set DATABASE_URL to .*\.$/);
  } finally {
    await admin.query('set default_transaction_read_only = off');
    await admin.query(`drop database ${latin} with (force)`);
  }
  expect(await refusal(`${testDatabase.url}&sslmode=verify-full&sslrootcert=/nowhere`)).toBeInstanceOf(StartError);
});

test('a user who may not use a role that another created stops the start with one line that says what to do', async () => {
  const user = `${testDatabase.name}_user`;
  await admin.query(`create role ${user} login createrole`);
  try {
    await admin.query(`grant create on database ${testDatabase.name} to ${user}`);
    await migrateAll(testDatabase.url, [], logger);
    const url = new URL(testDatabase.url);
    url.searchParams.set('user', user);
    const refusal = await migrateAll(url.href, [ledger], logger).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(StartError);
    expect((refusal as Error).message).toMatch(/^[^\n]*grant it modelgateway_app[^\n]*$/);
    await admin.query(`grant modelgateway_app to ${user}`);
    await migrateAll(url.href, [ledger], logger);
    expect(await recorded('ledger')).toEqual(['0001-create-entries', '0002-create-notes']);
  } finally {
    await admin.query(`drop owned by ${user} cascade`);
    await admin.query(`drop role ${user}`);
  }
});

test('a database in which another program has a schema of the same name stops the start in one line, and is left as it is', async () => {
  // As Supabase's `auth`, with a record of migrations under the same name.
  await admin.query('create schema other; create table other.schema_migrations (version text)');
  await expect(migrateAll(testDatabase.url, [ledger, other], logger)).rejects.toThrow(
    /^The schema other of the database belongs to another program: set DATABASE_URL to [^\n]*\.$/,
  );
  const { rows } = await admin.query("select from pg_namespace where nspname = 'ledger'");
  expect(rows).toEqual([]);
});

test('a dump restored without the rights of the restricted role stops the start with one line that says what to do', async () => {
  await migrateAll(testDatabase.url, [ledger], logger);
  // What is left if the server had no such role, or the restore was told to leave privileges out.
  await admin.query('drop owned by modelgateway_app');
  const refusal: unknown = await migrateAll(testDatabase.url, [other, ledger], logger).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(StartError);
  expect((refusal as Error).message).toMatch(
    /^The database was restored without the rights of modelgateway_app \(to tables of ledger\): [^\n]*create role modelgateway_app[^\n]*\.$/,
  );
  await admin.query('drop schema ledger cascade');
  await migrateAll(testDatabase.url, [other, ledger], logger);
});

test('a dump restored as another user is told of at once and not only by the upgrade, which changes nothing then', async () => {
  const user = `${testDatabase.name}_user`;
  await admin.query(`create role ${user} login`);
  try {
    await migrateAll(testDatabase.url, [ledger], logger);
    await admin.query(`grant create on database ${testDatabase.name} to ${user}`);
    await admin.query(`grant modelgateway_app to ${user}`);
    const url = new URL(testDatabase.url);
    url.searchParams.set('user', user);
    const { logger: collecting, lines } = logCollector();
    await migrateAll(url.href, [ledger], collecting);
    expect(lines).toMatchObject([{ level: 40, msg: expect.stringContaining(`restore the dump as ${user}, or `) }]);

    const later = { service: 'ledger', migrations: [...ledger.migrations, { name: '0003', class: WidenEntries }] };
    const refusal: unknown = await migrateAll(url.href, [other, later], logger).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(StartError);
    expect((refusal as Error).message).toMatch(
      /^The database cannot be migrated, since its tables belong to \w+, [^\n]*: restore the dump as [^\n]*\.$/,
    );
    const { rows } = await admin.query("select to_regnamespace('other') as found");
    expect(rows).toEqual([{ found: null }]);

    for (const object of ['schema ledger', 'table ledger.schema_migrations', 'table ledger.entries'])
      await admin.query(`alter ${object} owner to ${user}`);
    await migrateAll(url.href, [later], collecting);
    expect(lines.slice(1)).toMatchObject([{ service: 'ledger', migrations: ['0003'] }]);
  } finally {
    await admin.query(`drop owned by ${user} cascade`);
    await admin.query(`drop role ${user}`);
  }
});

test('a Postgres that is too old stops the start, and the oldest supported one does not', () => {
  const server = { encoding: 'UTF8', read_only: 'off', search_path: 'pg_catalog' };
  expect(unsuitability({ ...server, version: '15.18', number: 150_018 })).toBe(
    'is Postgres 15.18: set DATABASE_URL to a Postgres 16 or later.',
  );
  expect(unsuitability({ ...server, version: '16.0', number: 160_000 })).toBeNull();
});

test("a database's own settings change neither how it is read nor how it commits", async () => {
  for (const setting of [
    "datestyle = 'SQL, DMY'",
    "intervalstyle = 'iso_8601'",
    'standard_conforming_strings = off',
    "default_transaction_isolation = 'serializable'",
    'array_nulls = off',
  ])
    await admin.query(`alter database ${testDatabase.name} set ${setting}`);
  await migrateAll(testDatabase.url, [ledger], logger);
  opened = await openServiceDatabase({ service: 'ledger', connection: testDatabase.url, entities: [], logger });
  const text = String.raw`select '2026-01-31T12:00:00Z'::timestamptz as time, '\'::text as text, current_setting('transaction_isolation') as isolation, '{NULL}'::text[] as list`;
  const expected = { time: new Date('2026-01-31T12:00:00Z'), text: '\\', isolation: 'read committed', list: [null] };
  expect((await opened.pool.query(text)).rows).toEqual([expected]);
  const [row] = await opened.em().execute<{ time: string }[]>(text);
  expect({ ...row, time: new Date(row!.time) }).toEqual(expected);
});

test("a database's own timeouts end neither a migration, nor a start that waits for another's migrations", async () => {
  const { rows } = await admin.query(
    `select name from pg_settings where name ~ '^(statement|lock|transaction|idle_session|idle_in_transaction_session)_timeout$'`,
  );
  for (const { name } of rows) await admin.query(`alter database ${testDatabase.name} set ${name} = '20ms'`);
  const url = await checkReachable(testDatabase.url);
  const slow: ServiceMigrations = { service: 'ledger', migrations: [{ name: '0001-sleep', class: Sleep }] };
  await Promise.all([migrateAll(url, [slow], logger), migrateAll(url, [slow], logger)]);
  expect(await recorded('ledger')).toEqual(['0001-sleep']);
});

test('a service writes ordinary tables, adds to append-only ones, and changes neither them nor the record of migrations', async () => {
  await migrateAll(testDatabase.url, [ledger], logger);
  opened = await openServiceDatabase({ service: 'ledger', connection: testDatabase.url, entities: [], logger });
  const { pool } = opened;
  const em = opened.em();

  await pool.query("insert into notes (text) values ('a')");
  await pool.query("update notes set text = 'b'");
  await pool.query('delete from notes');
  await pool.query("insert into entries values (1, 'posted')");
  await em.execute("insert into entries values (2, 'posted')");

  const denied = { code: '42501' };
  await expect(pool.query("update entries set text = 'changed'")).rejects.toMatchObject(denied);
  await expect(pool.query('delete from entries')).rejects.toMatchObject(denied);
  await expect(pool.query('truncate entries')).rejects.toMatchObject(denied);
  await expect(pool.query('drop table entries')).rejects.toMatchObject(denied);
  await expect(em.execute("update entries set text = 'changed'")).rejects.toMatchObject(denied);
  await expect(pool.query('delete from schema_migrations')).rejects.toMatchObject(denied);
  await expect(pool.query('create table mine (id integer)')).rejects.toMatchObject(denied);
});
