import pg from 'pg';
import { expect, test } from 'vitest';
import { appRole } from '#shared/db/connection.ts';
import { serviceMigrations } from '../../services/cmd/migrations.ts';
import { createTestDatabase } from './postgres.ts';

test('a test gets a migrated database of its own in under a second', async () => {
  const startedMs = performance.now();
  await using database = await createTestDatabase();
  const tookMs = performance.now() - startedMs;
  expect(tookMs).toBeLessThan(1_000);

  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  const { rows } = await client.query(
    "select nspname, has_schema_privilege($1, nspname, 'usage') as usable from pg_namespace where nspname = any($2) order by 1",
    [appRole, serviceMigrations.map(({ service }) => service)],
  );
  await client.end();
  const services = serviceMigrations.map(({ service }) => service).sort();
  expect(rows).toEqual(services.map((nspname) => ({ nspname, usable: true })));
});

test('what one test writes, another does not see', async () => {
  await using mine = await createTestDatabase();
  await using yours = await createTestDatabase();
  const client = new pg.Client({ connectionString: mine.url });
  await client.connect();
  await client.query('create table public.mine (id integer)');
  await client.end();
  const other = new pg.Client({ connectionString: yours.url });
  await other.connect();
  const { rows } = await other.query("select to_regclass('public.mine') as found");
  await other.end();
  expect(rows).toEqual([{ found: null }]);
});
