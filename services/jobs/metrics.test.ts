import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { uuidv7 } from '#shared/ids.ts';
import { rowsOf } from '../../test/support/postgres.ts';
import { openJobsDatabase, ownJobsDatabase, queueJobs, silent } from './fixtures/test-queue.ts';
import { showQueue } from './metrics.ts';

const { url } = await ownJobsDatabase();

/** How many jobs were read so far; the server knows it when those who read are gone. */
async function jobsRead(): Promise<number> {
  const [row] = await rowsOf(
    url,
    "select (seq_tup_read + idx_tup_fetch)::float8 as read from pg_stat_user_tables where schemaname = 'jobs' and relname = 'jobs'",
  );
  return row.read;
}

test('a scrape tells how many jobs wait and run, and since when, and reads none of those that have ended', async () => {
  const database = await openJobsDatabase(url);
  await queueJobs(database, 5_000, { tenantId: uuidv7(), userId: uuidv7() });
  await database.pool.query("update jobs set status = 3, ended_at = now(), expires_at = now() + interval '1 day'");
  await queueJobs(database, 5, { tenantId: uuidv7(), userId: uuidv7() });
  await database.pool.query(`
    update jobs set status = 2, lease_expires_at = now() where id in (select id from jobs where status = 1 limit 2);
    update jobs set created_at = now() - interval '90 s' where status = 1`);
  await database.close();
  const before = await jobsRead();

  const scraping = await openJobsDatabase(url);
  const registry = new Registry();
  showQueue(registry, scraping, silent);
  const shown = await registry.metrics();
  await scraping.close();
  expect(shown).toContain('gateway_jobs{status="queued"} 3\n');
  expect(shown).toContain('gateway_jobs{status="in_progress"} 2\n');
  expect(Number(/^gateway_jobs_oldest_queued_seconds (.*)$/m.exec(shown)![1])).toBeGreaterThanOrEqual(90);
  await expect.poll(jobsRead).toBeGreaterThan(before);
  expect((await jobsRead()) - before).toBeLessThan(100);
});
