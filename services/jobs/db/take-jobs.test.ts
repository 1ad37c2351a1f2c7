import { expect, test } from 'vitest';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { uuidv7 } from '#shared/ids.ts';
import { createTestDatabase, rowsOf } from '../../../test/support/postgres.ts';
import { jobsRead, openJobsDatabase, queueJobs } from '../fixtures/test-queue.ts';
import { dueStatement } from './leases.ts';
import { takeJobs } from './take-jobs.ts';

test('a look into the queue finds out what waits of only as many organizations as it takes jobs from, and of more while models are busy', async () => {
  await using made = await createTestDatabase();
  const { url } = made;
  /** With connections of its own: what is read is counted when they end. */
  const counted = async <T>(work: (database: ServiceDatabase) => Promise<T>): Promise<{ result: T; read: number }> => {
    const before = await jobsRead(url);
    const database = await openJobsDatabase(url);
    const result = await work(database).finally(() => database.close());
    return { result, read: (await jobsRead(url)) - before };
  };
  /** The organizations of the jobs taken, in turn. */
  const take = (slots: number, perModel = 1_000) =>
    counted(async (database) => {
      const { jobs } = await takeJobs(database, {
        slots,
        bounds: { perSubject: 1_000, perModel },
        modelSlots: new Map(),
        random: () => 0,
        requestBytes: 1e9,
        workerId: uuidv7(),
        shiftMs: 0,
      });
      return jobs.map(({ tenantId }) => tenantId);
    });

  const tenants = Array.from({ length: 100 }, () => ({ tenantId: uuidv7(), userId: uuidv7() }));
  await counted(async (database) => {
    for (const tenant of tenants) await queueJobs(database, 20, tenant);
    await database.pool.query(`update jobs set model = 'model-' || n from (
      select id as of, row_number() over (partition by tenant_id) as n from jobs) as numbered where id = of`);
    await database.pool.query('vacuum analyze jobs');
  });
  const { result: taken, read } = await take(2);
  expect(taken).toEqual(tenants.slice(0, 2).map(({ tenantId }) => tenantId));
  // There are 2,000 pairs of a caller and a model.
  expect(read).toBeLessThan(400);

  const another = { tenantId: uuidv7(), userId: uuidv7(), model: 'another' };
  await counted(async (database) => {
    await database.pool.query(`update jobs set model = 'busy'`);
    await queueJobs(database, 1, another);
    // Its turn comes after that of all others.
    await database.pool.query(`insert into served_tenants values ($1, now())`, [another.tenantId]);
  });
  const { result } = await take(1, 2);
  expect(result).toEqual([another.tenantId]);
});

test('the question whether a job waits, asked once a second, reads none of those that ended before it', async () => {
  await using made = await createTestDatabase();
  const { url } = made;
  const database = await openJobsDatabase(url);
  const ended = { tenantId: uuidv7(), userId: uuidv7() };
  await queueJobs(database, 8_000, ended);
  await database.pool.query(
    `update jobs set status = ${JobStatus.COMPLETED}, ended_at = now(), expires_at = now() + interval '1 day', request = null`,
  );
  await rowsOf(url, 'vacuum full jobs.jobs');
  await queueJobs(database, 4_000, ended);
  // Of many organizations, whose jobs lie in the table as they came.
  await database.pool.query('update jobs set tenant_id = gen_random_uuid() where status = 1');
  await rowsOf(url, 'vacuum analyze jobs.jobs');
  await database.close();
  const before = await jobsRead(url);
  const asking = await openJobsDatabase(url);
  expect((await asking.query(dueStatement(0))).rows).toEqual([{ is_queued: true, is_lapsed: false }]);
  await asking.close();
  expect((await jobsRead(url)) - before).toBeLessThan(10);
});
