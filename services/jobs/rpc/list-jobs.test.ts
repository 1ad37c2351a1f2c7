import { create } from '@bufbuild/protobuf';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { CallerKind, CallerSchema, callerContext, Role } from '#shared/rpc/caller.ts';
import { localClient } from '../../../test/support/local-client.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { ownJobsDatabase } from '../fixtures/test-queue.ts';
import { startJobs } from '../start.ts';

const { url } = await ownJobsDatabase();

test.each(['listJobs', 'getJobStats'] as const)(
  'of the calls of %s by one organization two run at a time and fifty wait, so that submissions and workers have connections',
  async (read) => {
    const billing = { lease: null, settle: null, releaseHold: null } as never;
    const options = { connection: url, billing, registry: new Registry(), clock: systemClock, logger: silentLogger };
    const started = await startJobs(options);
    const jobs = localClient(JobsService, started.implementation, silentLogger);
    const caller = { kind: CallerKind.SESSION, role: Role.OWNER, tenantId: uuidv7(), userId: uuidv7() };
    const as = { contextValues: callerContext(create(CallerSchema, caller)) };
    const reads = await Promise.allSettled(Array.from({ length: 60 }, () => jobs[read]({}, as)));
    const refused = reads.filter(({ status }) => status === 'rejected');
    expect(refused).toHaveLength(8);
    expect(refused).toMatchObject(Array(8).fill({ reason: { reason: ErrorReason.RATE_LIMITED } }));
    await started.close();
  },
);
