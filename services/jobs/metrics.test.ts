import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { uuidv7 } from '#shared/ids.ts';
import { silentLogger } from '../../test/support/silent-logger.ts';
import { jobsRead, openJobsDatabase, ownJobsDatabase, queueJobs } from './fixtures/test-queue.ts';
import { showQueue } from './metrics.ts';

const { url } = await ownJobsDatabase();

test('a scrape tells how many jobs wait and run, and since when, and reads none of those that have ended', async () => {
  const database = await openJobsDatabase(url);
  await queueJobs(database, 5_000, { tenantId: uuidv7(), userId: uuidv7() });
  await database.pool.query("update jobs set status = 3, ended_at = now(), expires_at = now() + interval '1 day'");
  await queueJobs(database, 5, { tenantId: uuidv7(), userId: uuidv7() });
  await database.pool.query(`
    update jobs set status = 2, lease_expires_at = now() where id in (select id from jobs where status = 1 limit 2);
    update jobs set created_at = now() - interval '90 s' where status = 1`);
  await database.close();
  const before = await jobsRead(url);

  const scraping = await openJobsDatabase(url);
  const registry = new Registry();
  showQueue(registry, scraping, silentLogger);
  const shown = await registry.metrics();
  await scraping.close();
  expect(shown).toContain('gateway_jobs{status="queued"} 3\n');
  expect(shown).toContain('gateway_jobs{status="in_progress"} 2\n');
  expect(Number(/^gateway_jobs_oldest_queued_seconds (.*)$/m.exec(shown)![1])).toBeGreaterThanOrEqual(90);
  expect((await jobsRead(url)) - before).toBeLessThan(100);
});
