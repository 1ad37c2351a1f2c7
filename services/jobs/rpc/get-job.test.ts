import pLimit from 'p-limit';
import { expect, test } from 'vitest';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { systemClock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { bodyKinds, inRowBytesMax, largeBodiesAtOnce, writeBody } from '../db/bodies.ts';
import { ownJobsDatabase, queueJobs } from '../fixtures/test-queue.ts';
import { readJob } from './get-job.ts';

const { database } = await ownJobsDatabase();
const deps = { database, largeReads: pLimit(largeBodiesAtOnce), clock: systemClock };

const result = Buffer.alloc(20 * 1024 * 1024, 'x');

/** A finished job with a result of twenty parts, which are read sixteen at a time. */
async function endedJob(resultBytes = result.byteLength) {
  const owner = { tenantId: uuidv7(), userId: uuidv7() };
  const [id] = await queueJobs(database, 1, owner);
  await database.pool.query(
    `update jobs set status = ${JobStatus.COMPLETED}, ended_at = now(), expires_at = now() + interval '1 day',
      result_content_type = 'application/json', request = null where id = $1`,
    [id],
  );
  await writeBody(database.pool, { ...owner, id: id! }, bodyKinds.result, result.subarray(0, resultBytes));
  return { ...owner, id: id! };
}

test('a large result is read completely', async () => {
  const job = await readJob(deps, await endedJob());
  expect(job.result!.body.byteLength).toBe(result.byteLength);
  expect(result.equals(job.result!.body)).toBe(true);
});

test('large results that are read slowly leave connections for everything else', async () => {
  const job = await endedJob(inRowBytesMax + 1);
  const slow = await database.pool.connect();
  await slow.query('begin');
  await slow.query('lock table job_bodies in access exclusive mode');
  const reading = Promise.all(Array.from({ length: 12 }, () => readJob(deps, job)));
  const waiting = async () => (await slow.query('select from pg_locks where not granted')).rowCount!;
  await waitFor(async () => (await waiting()) >= 4, { description: 'the reading of results' });
  expect(await database.query({ text: 'select 1 as one' })).toMatchObject({ rows: [{ one: 1 }] });
  await slow.query('rollback');
  slow.release();
  expect(await reading).toHaveLength(12);
});

test('a result larger than the caller accepts is left out, and its length is given', async () => {
  const job = await endedJob();
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
    const answered = await readJob({ ...deps, database: watched }, job).then(
      ({ result }) => `${result!.body.byteLength} bytes`,
      (error) => error.reason,
    );
    expect(answered).toBe(ErrorReason.NOT_FOUND);
  },
);
