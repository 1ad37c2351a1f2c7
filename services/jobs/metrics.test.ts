import pg from 'pg';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { uuidv7 } from '#shared/ids.ts';
import { silentLogger } from '../../test/support/silent-logger.ts';
import { startStopwatch } from '../../test/support/stopwatch.ts';
import { reclaimLapsed } from './db/leases.ts';
import { jobsRead, openJobsDatabase, ownJobsDatabase, queueJobs } from './fixtures/test-queue.ts';
import { showQueue } from './metrics.ts';

const { url, database: idle } = await ownJobsDatabase();

test('a scrape tells how many jobs wait and run, and since when, and reads none of those that have ended', async () => {
  const database = await openJobsDatabase(url);
  await queueJobs(database, 5_000, { tenantId: uuidv7(), userId: uuidv7() });
  await database.pool.query("update jobs set status = 3, ended_at = now(), expires_at = now() + interval '1 day'");
  await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  await database.pool.query(`
    update jobs set status = 2, created_at = now() - interval '1 hour', started_at = created_at, lease_expires_at = now() where status = 1`);
  expect(await reclaimLapsed(database, 0)).toBe(1);
  await queueJobs(database, 5, { tenantId: uuidv7(), userId: uuidv7() });
  await database.pool.query(`
    update jobs set status = 2, lease_expires_at = now() where id in (select id from jobs where status = 1 and started_at is null limit 2);
    update jobs set created_at = now() - interval '1 hour', available_at = now() - interval '90 s'
      where id in (select id from jobs where status = 1 and started_at is null limit 2);
    update jobs set available_at = now() + interval '30 s' where id = (select id from jobs where status = 1 and available_at = now() - interval '90 s' limit 1)`);
  await database.close();
  const before = await jobsRead(url);

  const scraping = await openJobsDatabase(url);
  const registry = new Registry();
  showQueue(registry, scraping, silentLogger);
  const shown = await registry.metrics();
  await scraping.close();
  // Whoever scrapes must not take how it was for how it is.
  expect((await registry.metrics()).match(/^gateway_jobs.*/gm)).toBeNull();
  expect(shown).toContain('gateway_jobs{status="queued"} 4\n');
  expect(shown).toContain('gateway_jobs{status="in_progress"} 2\n');
  const waited = Number(/^gateway_jobs_oldest_queued_seconds (.*)$/m.exec(shown)![1]);
  expect(waited).toBeGreaterThanOrEqual(90);
  // Not the hour since their submission: they may have been tried, or have waited for their model, until then.
  expect(waited).toBeLessThan(3_000);
  expect((await jobsRead(url)) - before).toBeLessThan(100);
});

test('jobs that cannot be counted at the moment hold up no scrape', async () => {
  const registry = new Registry();
  showQueue(registry, idle, silentLogger);
  const owner = new pg.Client({ connectionString: url });
  await owner.connect();
  try {
    await owner.query('begin; lock table jobs.jobs in access exclusive mode');
    using watch = startStopwatch();
    expect(await registry.metrics()).toContain('gateway_jobs');
    // After two seconds a scrape of WORKERS is a 503.
    expect(watch.ms).toBeLessThan(2_000);
  } finally {
    await owner.end();
  }
});
