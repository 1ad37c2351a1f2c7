import pg from 'pg';
import { expect, test } from 'vitest';
import { migrateAll } from '#shared/db/migrate.ts';
import { createEmptyDatabase } from '../../../../test/support/postgres.ts';
import { logCollector } from '../../../../test/support/rpc-carriers.ts';
import { rollUpSums } from '../store-events.ts';
import { migrations } from './index.ts';

test('weeks are summed from the days that exist when a gateway is upgraded, once', async () => {
  const { logger } = logCollector();
  const database = await createEmptyDatabase();
  const migrate = (through: string) => {
    const end = migrations.findIndex(({ name }) => name === through) + 1;
    return migrateAll(database.url, [{ service: 'usage', migrations: migrations.slice(0, end) }], logger);
  };
  await migrate('0007-sum-days-later');
  const owner = new pg.Client({ connectionString: database.url });
  await owner.connect();
  await owner.query('set search_path = usage');
  // Thirty days around a New Year's Day, which is a Thursday: two users, each with two models; every measure has a different number.
  await owner.query(
    `insert into daily_rollups (tenant_id, bucket_start, user_id, api_key_id, model, endpoint, ${rollUpSums.join(', ')})
      select lpad('1', 32, '0')::uuid, day, lpad(person::text, 32, '0')::uuid, lpad('3', 32, '0')::uuid, model, '/v1/embeddings',
        ${rollUpSums.map((_, place) => `${place + 1} * extract(day from day)::int * person`).join(', ')}
      from generate_series('2025-12-20Z'::timestamptz, '2026-01-18Z', interval '24 hours') as day,
        generate_series(1, 2) as person, unnest(array['small', 'large']) as model`,
  );
  await migrate('0008-add-weekly-rollups');
  await migrate('0008-add-weekly-rollups');

  const sumsOf = async (table: string, groups: string) => {
    const sums = rollUpSums.map((name) => `sum(${name})::text as ${name}`).join(', ');
    return (await owner.query(`select ${groups}, ${sums} from ${table} group by ${groups} order by ${groups}`)).rows;
  };
  const ofWeeks = await sumsOf('weekly_rollups', `user_id, model, bucket_start::date`);
  const ofDays = await sumsOf('daily_rollups', `user_id, model, date_trunc('week', bucket_start, 'UTC')::date`);
  const plain = (rows: object[]) => rows.map((row) => Object.values(row));
  expect(plain(ofWeeks)).toEqual(plain(ofDays));
  expect(await owner.query('select from weekly_rollups')).toMatchObject({ rowCount: 5 * 2 * 2 });
  await owner.end();
  await database.drop();
});
