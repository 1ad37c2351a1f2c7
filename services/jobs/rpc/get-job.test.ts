import { expect, test } from 'vitest';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { systemClock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { bodyKinds, writeBody } from '../db/bodies.ts';
import { ownJobsDatabase, queueJobs } from '../fixtures/test-queue.ts';
import { readJob } from './get-job.ts';

const { database } = await ownJobsDatabase();

const result = Buffer.alloc(20 * 1024 * 1024, 'x');

/** A finished job with a result of twenty parts, which are read sixteen at a time. */
async function endedJob() {
  const owner = { tenantId: uuidv7(), userId: uuidv7() };
  const [id] = await queueJobs(database, 1, owner);
  await database.pool.query(
    `update jobs set status = ${JobStatus.COMPLETED}, ended_at = now(), expires_at = now() + interval '1 day',
      result_content_type = 'application/json', request = null where id = $1`,
    [id],
  );
  await writeBody(database.pool, { ...owner, id: id! }, bodyKinds.result, result);
  return { ...owner, id: id! };
}

test('a large result is read completely', async () => {
  const job = await readJob({ database, clock: systemClock }, await endedJob());
  expect(job.result!.body.byteLength).toBe(result.byteLength);
  expect(result.equals(job.result!.body)).toBe(true);
});

test('a result larger than the caller accepts is left out, and its length is given', async () => {
  const job = await endedJob();
  const deps = { database, clock: systemClock };
  const leftOut = await readJob(deps, job, { resultBytesMax: BigInt(result.byteLength) - 1n });
  expect([leftOut.result?.body.byteLength, leftOut.resultLeftOutBytes]).toEqual([undefined, BigInt(result.byteLength)]);
  const whole = await readJob(deps, job, { resultBytesMax: BigInt(result.byteLength) });
  expect([whole.result?.body.byteLength, whole.resultLeftOutBytes]).toEqual([result.byteLength, 0n]);
});

test.each([0, 1])(
  'a job removed after %d reads of its result is not found, and never returns half a result',
  async (reads) => {
    const job = await endedJob();
    let done = 0;
    const query = async (statement: { name: string }) => {
      if (statement.name === 'jobs-read-body' && done++ === reads) {
        await database.pool.query('delete from jobs where id = $1', [job.id]);
      }
      return database.pool.query(statement as never);
    };
    const watched = { ...database, pool: { query } } as unknown as ServiceDatabase;
    const answered = await readJob({ database: watched, clock: systemClock }, job).then(
      ({ result }) => `${result!.body.byteLength} bytes`,
      (error) => error.reason,
    );
    expect(answered).toBe(ErrorReason.NOT_FOUND);
  },
);
