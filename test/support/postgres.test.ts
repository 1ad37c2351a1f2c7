import { expect, test } from 'vitest';
import { appRole } from '#shared/db/connection.ts';
import { serviceMigrations } from '../../services/cmd/migrations.ts';
import { createTestDatabase, rowsOf } from './postgres.ts';

test('a test gets a migrated database of its own in under a second', async () => {
  const startedMs = performance.now();
  await using database = await createTestDatabase();
  const tookMs = performance.now() - startedMs;
  expect(tookMs).toBeLessThan(1_000);

  const rows = await rowsOf(
    database.url,
    "select nspname, has_schema_privilege($1, nspname, 'usage') as usable from pg_namespace where nspname = any($2) order by 1",
    [appRole, serviceMigrations.map(({ service }) => service)],
  );
  const services = serviceMigrations.map(({ service }) => service).sort();
  expect(rows).toEqual(services.map((nspname) => ({ nspname, usable: true })));
});

test('what one test writes, another does not see', async () => {
  await using mine = await createTestDatabase();
  await using yours = await createTestDatabase();
  await rowsOf(mine.url, 'create table public.mine (id integer)');
  const rows = await rowsOf(yours.url, "select to_regclass('public.mine') as found");
  expect(rows).toEqual([{ found: null }]);
});
