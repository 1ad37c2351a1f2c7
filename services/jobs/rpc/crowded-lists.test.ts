import { create } from '@bufbuild/protobuf';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { Role } from '#gen/modelgateway/common/v1/caller_pb.ts';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { publicJobId, uuidv7 } from '#shared/ids.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { localClient } from '../../../test/support/local-client.ts';
import { rowsOf } from '../../../test/support/postgres.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { jobsRead, openJobsDatabase, ownJobsDatabase, queueJobs } from '../fixtures/test-queue.ts';
import { startJobs } from '../start.ts';

const { url } = await ownJobsDatabase();

test('lists and counts of jobs read the jobs of their page and those that wait, however many there are', async () => {
  const person = { tenantId: uuidv7(), userId: uuidv7() };
  const filling = await openJobsDatabase(url);
  for (let others = 0; others < 20; others += 1) await queueJobs(filling, 50, { tenantId: uuidv7(), userId: uuidv7() });
  const ended = await queueJobs(filling, 6_000, person);
  const failed = ended[1_000]!;
  await filling.pool.query(
    "update jobs set status = 3, expires_at = now() + interval '1 day', result = convert_to(repeat('a', 1500), 'UTF8') where user_id = $1",
    [person.userId],
  );
  await filling.pool.query("update jobs set status = 4, model = 'another' where id = $1", [failed]);
  const waiting = await queueJobs(filling, 2, person);
  await filling.close();
  for (const tidy of ['vacuum full jobs.jobs', 'vacuum analyze jobs.jobs']) await rowsOf(url, tidy);

  const before = await jobsRead(url);
  const billing = { lease: null, settle: null, releaseHold: null } as never;
  const options = { connection: url, billing, registry: new Registry(), clock: systemClock, logger: silentLogger };
  const started = await startJobs(options);
  const jobs = localClient(JobsService, started.implementation, silentLogger);
  const as = (caller: object) => ({
    contextValues: callerContext(create(CallerSchema, { kind: CallerKind.SESSION, role: Role.OWNER, ...caller })),
  });
  const operator = as({ tenantId: uuidv7(), userId: uuidv7(), operator: true });
  // After some calls Postgres plans a statement for callers and filters that it does not know.
  for (let calls = 0; calls < 8; calls += 1) {
    for (const [filter, total, first, ofOthers] of [
      [{}, 6_002n, waiting.at(-1), 1_000n],
      [{ status: JobStatus.FAILED }, 1n, failed, 0n],
      [{ model: 'another' }, 1n, failed, 0n],
      [{ page: { page: 300, limit: 20 } }, 6_002n, ended[6_001 - 299 * 20], 1_000n],
    ] as const) {
      const own = await jobs.listJobs(filter, as(person));
      expect([own.pageInfo!.total, own.jobs[0]!.id]).toEqual([total, publicJobId(first!)]);
      const all = await jobs.adminListJobs(filter, operator);
      expect([all.pageInfo!.total, all.jobs[0]!.job!.id]).toEqual([total + ofOthers, publicJobId(first!)]);
      const ofOne = await jobs.adminListJobs({ tenantId: person.tenantId, ...filter }, operator);
      expect([ofOne.pageInfo!.total, ofOne.jobs[0]!.job!.id]).toEqual([total, publicJobId(first!)]);
    }
    const stats = await jobs.getJobStats({}, as(person));
    expect([stats.total, stats.byStatus[0]!.count, stats.oldestQueuedAt === undefined]).toEqual([6_002n, 2n, false]);
  }
  await started.close();
  expect((await jobsRead(url)) - before).toBeLessThan(2_000);
});
