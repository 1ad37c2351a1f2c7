import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ErrorDetailSchema } from '#gen/modelgateway/common/v1/error_pb.ts';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { databaseError } from '#shared/db/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { inRowBytesMax } from '../db/bodies.ts';
import { extendLeases } from '../db/leases.ts';
import { takeJobs } from '../db/take-jobs.ts';
import { ownJobsDatabase, queueJobs } from '../fixtures/test-queue.ts';
import { createEndBatches } from './end-batches.ts';

test('answers are kept as long as the database is away, and given up at once when their worker stops', async () => {
  const { logger, lines } = logCollector('info');
  let waitedMs = 0;
  const query = () => Promise.reject(databaseError(new Error('Connection terminated')));
  const ends = createEndBatches({
    database: { query, pool: {} as never },
    shiftMs: () => 0,
    logger,
    delay: async (ms) => {
      waitedMs += ms;
      if (waitedMs > 600_000) ends.giveUp();
    },
  });
  const failed = { status: JobStatus.FAILED, error: create(ErrorDetailSchema) } as const;
  const wereEnded = ['1', '2', '3'].map((id) => ends.end({ tenantId: '', id, fence: 1n, requestBytes: 2 }, failed));
  expect(await Promise.all(wereEnded)).toEqual([false, false, false]);
  expect(waitedMs).toBeGreaterThan(600_000);
  expect(waitedMs).toBeLessThan(601_000);
  expect(lines).toMatchObject([{ failures: 2 }, { msg: 'the results of ended jobs could not be stored' }]);
});

test('an answer kept through an outage is not given up for one statement that then takes too long', async () => {
  const { database } = await ownJobsDatabase();
  const tenant = { tenantId: uuidv7(), userId: uuidv7() };
  const [id] = await queueJobs(database, 1, tenant);
  await database.pool.query(
    `update jobs set status = ${JobStatus.IN_PROGRESS}, worker_id = id, lease_expires_at = now()`,
  );
  let tries = 0;
  const query: typeof database.query = async (statement) => {
    tries += 1;
    if (tries <= 100) throw databaseError(new Error('Connection terminated'));
    const late = Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' });
    if (tries === 101) throw databaseError(late);
    return database.query(statement);
  };
  const ends = createEndBatches({
    database: { ...database, query },
    shiftMs: () => 0,
    logger: silentLogger,
    delay: async () => {},
  });
  const failed = { status: JobStatus.FAILED, error: create(ErrorDetailSchema) } as const;
  expect(await ends.end({ ...tenant, id: id!, fence: 0n, requestBytes: 2 }, failed)).toBe(true);
});

test('an ending that the database refuses holds up none of the others in its batch', async () => {
  const { database } = await ownJobsDatabase();
  const tenant = { tenantId: uuidv7(), userId: uuidv7() };
  const ids = await queueJobs(database, 3, tenant);
  await database.pool.query(
    `update jobs set status = ${JobStatus.IN_PROGRESS}, worker_id = id, lease_expires_at = now()`,
  );
  const ends = createEndBatches({ database, shiftMs: () => 0, logger: silentLogger });
  const wereEnded = ids.map((id, place) => {
    const contentType = place === 1 ? '\0' : 'text/plain';
    const answer = { status: JobStatus.COMPLETED, contentType, body: Buffer.from('an answer') } as const;
    return ends.end({ ...tenant, id, fence: 0n, requestBytes: 2 }, answer);
  });
  expect(await Promise.all(wereEnded)).toEqual([true, false, true]);
});

test('no statement deletes more requests than it can in its time', async () => {
  const { database } = await ownJobsDatabase();
  const sizes = [25, 25, 25, 25, 25, 25, 130, 1, 1].map((mebibytes) => mebibytes * 1024 * 1024);
  const ids = await queueJobs(database, sizes.length, { tenantId: uuidv7(), userId: uuidv7() });
  const resize =
    'update jobs set body_bytes = bytes from unnest($1::uuid[], $2::int[]) as given (one, bytes) where id = one';
  await database.pool.query(resize, [ids, sizes]);
  const allowance = { slots: 9, bounds: { perSubject: 9, perModel: 9 }, modelSlots: new Map(), random: () => 0 };
  const { jobs } = await takeJobs(database, {
    ...allowance,
    requestBytes: Number.MAX_SAFE_INTEGER,
    workerId: uuidv7(),
    shiftMs: 0,
  });
  const batches: number[] = [];
  const query: typeof database.query = async (statement) => {
    const result = await database.query<never>(statement);
    batches.push(result.rowCount!);
    return result;
  };
  const ends = createEndBatches({ database: { ...database, query }, shiftMs: () => 0, logger: silentLogger });
  const failed = { status: JobStatus.FAILED, error: create(ErrorDetailSchema) } as const;
  const inOrder = jobs.toSorted((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id));
  expect(await Promise.all(inOrder.map((job) => ends.end(job, failed)))).toEqual(ids.map(() => true));
  expect(batches).toEqual([5, 1, 1, 2]);
});

test('leases are extended without waiting for a job whose end is being written, which may wait for the others', async () => {
  const { database } = await ownJobsDatabase();
  await queueJobs(database, 2, { tenantId: uuidv7(), userId: uuidv7() });
  const allowance = { slots: 2, bounds: { perSubject: 2, perModel: 2 }, modelSlots: new Map(), random: () => 0 };
  const { jobs } = await takeJobs(database, { ...allowance, requestBytes: 9, workerId: uuidv7(), shiftMs: 0 });
  const [first, second] = jobs.map(({ id }) => id);
  const ending = await database.pool.connect();
  for (const [ended, other] of [
    [first, second],
    [second, first],
  ]) {
    await ending.query('begin');
    await ending.query('select from jobs where id = $1 for no key update', [ended]);
    const before = await ending.query('select lease_expires_at from jobs where id = $1', [other]);
    expect(await extendLeases(database, jobs, 0)).toEqual(new Set([first, second]));
    await ending.query('select from jobs where id = $1 for no key update', [other]);
    const after = await ending.query('select lease_expires_at from jobs where id = $1', [other]);
    expect(after.rows[0].lease_expires_at.getTime()).toBeGreaterThan(before.rows[0].lease_expires_at.getTime());
    await ending.query('rollback');
  }
  ending.release();
});

test('large results that are stored slowly leave connections for the leases of running jobs', async () => {
  const { database } = await ownJobsDatabase();
  await queueJobs(database, 11, { tenantId: uuidv7(), userId: uuidv7() });
  const allowance = { slots: 11, bounds: { perSubject: 11, perModel: 11 }, modelSlots: new Map(), random: () => 0 };
  const { jobs } = await takeJobs(database, { ...allowance, requestBytes: 99, workerId: uuidv7(), shiftMs: 0 });
  const [running, ...ended] = jobs;
  const slow = await database.pool.connect();
  await slow.query('begin');
  await slow.query('select from jobs where id <> $1 for update', [running!.id]);
  const ends = createEndBatches({ database, shiftMs: () => 0, logger: silentLogger });
  const answer = {
    status: JobStatus.COMPLETED,
    contentType: 'image/png',
    body: Buffer.alloc(inRowBytesMax + 1),
  } as const;
  const wereEnded = Promise.all(ended.map((job) => ends.end(job, answer)));
  expect(await extendLeases(database, [running!], 0)).toEqual(new Set([running!.id]));
  await slow.query('rollback');
  slow.release();
  expect(await wereEnded).toEqual(ended.map(() => true));
});
