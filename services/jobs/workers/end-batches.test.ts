import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ErrorDetailSchema } from '#gen/modelgateway/common/v1/error_pb.ts';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { ownJobsDatabase, queueJobs, silent } from '../fixtures/test-queue.ts';
import { createEndBatches } from './end-batches.ts';

test('an answer is given up once its lease has long lapsed, so that a worker can stop even if the database stays away', async () => {
  let waitedMs = 0;
  let tries = 0;
  const away = async () => {
    tries += 1;
    throw gatewayError(ErrorReason.OVERLOADED, 'away');
  };
  const ends = createEndBatches({
    database: { query: away, pool: {} as never },
    shiftMs: () => 0,
    logger: silent,
    delay: async (ms) => {
      waitedMs += ms;
    },
  });
  const job = { tenantId: '', id: '', fence: 1n, requestBytes: 2 };
  expect(await ends.end(job, { status: JobStatus.FAILED, error: create(ErrorDetailSchema) })).toBe(false);
  expect(tries).toBeGreaterThan(1);
  expect(waitedMs).toBeGreaterThan(29_000);
  expect(waitedMs).toBeLessThan(60_000);
});

test('an ending that the database refuses holds up none of the others in its batch', async () => {
  const { database } = await ownJobsDatabase();
  const tenant = { tenantId: uuidv7(), userId: uuidv7() };
  const ids = await queueJobs(database, 3, tenant);
  await database.pool.query(
    `update jobs set status = ${JobStatus.IN_PROGRESS}, worker_id = id, lease_expires_at = now()`,
  );
  const ends = createEndBatches({ database, shiftMs: () => 0, logger: silent });
  const wereEnded = ids.map((id, place) => {
    const contentType = place === 1 ? '\0' : 'text/plain';
    const answer = { status: JobStatus.COMPLETED, contentType, body: Buffer.from('an answer') } as const;
    return ends.end({ ...tenant, id, fence: 0n, requestBytes: 2 }, answer);
  });
  expect(await Promise.all(wereEnded)).toEqual([true, false, true]);
});

test('no statement deletes more requests than it can in its time', async () => {
  const batches: number[] = [];
  const query = async ({ values }: { values?: unknown[] }) => {
    const ids = values![1] as string[];
    batches.push(ids.length);
    return { rows: ids.map((id) => ({ id })) } as never;
  };
  const ends = createEndBatches({ database: { query, pool: {} as never }, shiftMs: () => 0, logger: silent });
  const wereEnded = [25, 25, 25, 25, 25, 25, 130, 1, 1].map((mebibytes, place) => {
    const job = { tenantId: '', id: String(place), fence: 1n, requestBytes: mebibytes * 1024 * 1024 };
    return ends.end(job, { status: JobStatus.FAILED, error: create(ErrorDetailSchema) });
  });
  expect(await Promise.all(wereEnded)).toEqual(wereEnded.map(() => true));
  expect(batches).toEqual([5, 1, 1, 2]);
});
