import { create } from '@bufbuild/protobuf';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { ErrorReason } from '#shared/errors.ts';
import { publicJobId, uuidv7 } from '#shared/ids.ts';
import { CallerKind, CallerSchema, callerContext, Role } from '#shared/rpc/caller.ts';
import { localClient } from '../../../test/support/local-client.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { ownJobsDatabase, queueJobs } from '../fixtures/test-queue.ts';
import { startJobs } from '../start.ts';

const { database, url } = await ownJobsDatabase();

test("only operators see others' jobs, of one organization if they name it, and never what was requested", async () => {
  const billing = { lease: null, settle: null, releaseHold: null } as never;
  const options = { connection: url, billing, registry: new Registry(), clock: systemClock, logger: silentLogger };
  const started = await startJobs(options);
  const jobs = localClient(JobsService, started.implementation, silentLogger);
  const person = { tenantId: uuidv7(), userId: uuidv7() };
  const as = (caller: object) => ({
    contextValues: callerContext(create(CallerSchema, { kind: CallerKind.SESSION, role: Role.OWNER, ...caller })),
  });
  const [mine] = await queueJobs(database, 1, person);
  await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  await database.pool.query(`update jobs set metadata = '{"patient":"17"}'`);
  const { tenantId } = person;
  await expect(jobs.adminListJobs({ tenantId }, as(person))).rejects.toMatchObject({
    reason: ErrorReason.INSUFFICIENT_ROLE,
  });
  const operator = as({ tenantId: uuidv7(), userId: uuidv7(), operator: true });
  expect((await jobs.adminListJobs({}, operator)).pageInfo).toMatchObject({ total: 2n });
  const { jobs: listed, pageInfo } = await jobs.adminListJobs({ tenantId }, operator);
  expect(listed).toMatchObject([{ job: { id: publicJobId(mine!), metadata: {} }, ...person, apiKeyId: '' }]);
  expect([pageInfo?.total, JSON.stringify(listed[0]!.job!.metadata)]).toEqual([1n, '{}']);
  const found = async (jobId: string) => (await jobs.adminListJobs({ jobId }, operator)).jobs.map(({ job }) => job!.id);
  expect(await found(publicJobId(mine!))).toEqual([publicJobId(mine!)]);
  for (const unknown of [publicJobId(uuidv7()), mine!, 'job_1']) expect(await found(unknown)).toEqual([]);
  // To their owner they are visible.
  const { job } = await jobs.getJob({ jobId: publicJobId(mine!) }, as(person));
  expect(job!.metadata).toEqual({ patient: '17' });
  await started.close();
});
