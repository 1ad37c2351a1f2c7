import { Migration } from '@mikro-orm/migrations';
import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createLogger } from '#shared/logger.ts';
import { StartError } from '#shared/start-error.ts';
import { createEmptyDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
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

const logger = createLogger({ level: 'silent', name: 'test' });
let testDatabase: TestDatabase;
let admin: pg.Client;
let opened: ServiceDatabase | undefined;

beforeEach(async () => {
  testDatabase = await createEmptyDatabase();
  admin = new pg.Client({ connectionString: testDatabase.url });
  await admin.connect();
});

afterEach(async () => {
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

test('a database out of reach stops the start in one line without the password', async () => {
  const url = 'postgresql://somebody:secret@127.0.0.1:1/nowhere';
  const refusal: unknown = await migrateAll(url, [ledger], logger).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(StartError);
  expect((refusal as Error).message).toMatch(
    /^Postgres is out of reach \(database nowhere on 127\.0\.0\.1: .*\): start it/,
  );
  expect((refusal as Error).message).not.toContain('secret');
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
