import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Registry } from 'prom-client';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  LeaseResponseSchema,
  ReleaseHoldResponseSchema,
  SettleResponseSchema,
} from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { ErrorDetailSchema } from '#gen/modelgateway/common/v1/error_pb.ts';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import {
  InvokeEndSchema,
  InvokeHeadSchema,
  InvokeResponseSchema,
  type JobHold,
  JobHoldSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { fromErrorDetail } from '#shared/rpc/connect-errors.ts';
import { ClockAhead } from '../../../test/support/clock-ahead.ts';
import { rowsOf } from '../../../test/support/postgres.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { bodyKinds, inRowBytesMax, writeBody } from '../db/bodies.ts';
import { leaseMs } from '../db/take-jobs.ts';
import { keptBytesMax } from '../domain/quotas.ts';
import { ownJobsDatabase, queueJobs, workerDeps } from '../fixtures/test-queue.ts';
import { JobWorker, type JobWorkerDeps, workerDefaults } from './job-worker.ts';
import { startJobWorker } from './start.ts';

const { database, url } = await ownJobsDatabase();
beforeEach(() => database.pool.query('delete from jobs'));

/** 10,000 in the long run (LONG=1). */
const jobsQueued = process.env.LONG === '1' ? 10_000 : 1_000;

const statuses = async (): Promise<Record<string, number>> => {
  const { rows } = await database.pool.query('select status, count(*)::int as count from jobs group by status');
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
};
const completed = async (): Promise<number> => (await statuses())[3] ?? 0;

/** How a job ceases to be its worker's without a word. */
const endings: [what: string, end: string][] = [
  [
    'was cancelled, unheard of',
    `update jobs set status = ${JobStatus.CANCELLED}, worker_id = null, lease_expires_at = null,
      ended_at = now(), expires_at = now() + interval '1 day'`,
  ],
  ['was taken by another worker', 'update jobs set fence = fence + 1'],
];

describe('two workers', () => {
  test(`drain ${jobsQueued} jobs of 10 organizations fairly, each once`, async () => {
    const tenants = Array.from({ length: 10 }, () => ({ tenantId: uuidv7(), userId: uuidv7() }));
    // One organization after the other: in the order of submission the last would wait for all.
    for (const tenant of tenants) await queueJobs(database, jobsQueued / 10, tenant);
    const started: string[] = [];
    const runs = new Map<string, number>();
    const deps = workerDeps(database, async ({ jobId }) => {
      runs.set(jobId, (runs.get(jobId) ?? 0) + 1);
      started.push(jobId);
      await new Promise((resolve) => setImmediate(resolve));
    });
    const options = { concurrency: 32, bounds: { perSubject: 1_000, perModel: 1_000 } };
    const workers = [new JobWorker(deps, options), new JobWorker(deps, options)];
    try {
      await waitFor(async () => (await completed()) === jobsQueued, {
        description: 'the end of all jobs',
        timeoutMs: 50_000,
        intervalMs: 20,
      });
    } finally {
      await Promise.all(workers.map((worker) => worker.close(1_000)));
    }
    expect(runs.size).toBe(jobsQueued);
    expect([...runs.values()].every((count) => count === 1)).toBe(true);

    const { rows } = await database.pool.query<{ id: string; tenant_id: string }>('select id, tenant_id from jobs');
    const tenantOf = new Map(rows.map((row) => [row.id, row.tenant_id]));
    const counts = new Map(tenants.map(({ tenantId }) => [tenantId, 0]));
    let apart = 0;
    for (const id of started) {
      const tenantId = tenantOf.get(id)!;
      counts.set(tenantId, counts.get(tenantId)! + 1);
      apart = Math.max(apart, Math.max(...counts.values()) - Math.min(...counts.values()));
    }
    // What two workers take at once is shared out evenly; within that the order is chance.
    expect(apart).toBeLessThanOrEqual(10);
  });

  test('a newcomer does not wait for a long queue of somebody else', async () => {
    const greedy = { tenantId: uuidv7(), userId: uuidv7() };
    await queueJobs(database, 300, greedy);
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const order: string[] = [];
    const deps = workerDeps(database, async ({ jobId }) => {
      order.push(jobId);
      if (order.length <= 4) await released;
    });
    const worker = new JobWorker(deps, { concurrency: 4, bounds: workerDefaults.bounds });
    await waitFor(() => order.length === 4, { description: 'a worker that is full' });
    const [mine] = await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
    release();
    await waitFor(() => order.includes(mine!), { description: 'the newcomer' });
    expect(order.indexOf(mine!)).toBeLessThan(10);
    await worker.close(5_000);
  });

  test('the jobs of an organization with as many results as it may have wait until some are gone', async () => {
    const full = { tenantId: uuidv7(), userId: uuidv7() };
    const [ended] = await queueJobs(database, 1, full);
    await database.pool.query(
      `with ended as (
          update jobs set status = 3, expires_at = now(), result_bytes = $2 where id = $1 returning tenant_id, result_bytes
        )
        insert into kept_results select * from ended`,
      [ended, keptBytesMax],
    );
    const order: string[] = [];
    const worker = new JobWorker(
      workerDeps(database, ({ jobId }) => void order.push(jobId)),
      workerDefaults,
    );
    const [waiting] = await queueJobs(database, 1, full);
    const [other] = await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
    worker.wake();
    await waitFor(() => order.length > 0, { description: 'a job of somebody else' });
    expect(order).toEqual([other]);
    await database.pool.query('delete from jobs where id = $1', [ended]);
    worker.wake();
    await waitFor(() => order.includes(waiting!), { description: 'the job that waited' });
    await worker.close(5_000);
  });

  test.each([
    ['two keys of an organization', (tenantId: string) => tenantId],
    ['two organizations', () => uuidv7()],
  ])('where a model takes one call at a time, %s take turns', async (_, otherOf) => {
    const tenantId = uuidv7();
    await queueJobs(database, 40, { tenantId, userId: uuidv7() });
    const others = await queueJobs(database, 40, { tenantId: otherOf(tenantId), userId: uuidv7() });
    const order: string[] = [];
    let isFull = false;
    const deps = workerDeps(database, async ({ jobId }) => {
      if (isFull) throw gatewayError(ErrorReason.NO_CAPACITY, 'full');
      isFull = true;
      order.push(jobId);
      await new Promise((resolve) => setTimeout(resolve, 20));
      isFull = false;
    });
    const worker = new JobWorker({ ...deps, random: Math.random }, workerDefaults);
    // A worker looks again each second at a model that had no room.
    const look = setInterval(() => worker.wake(), 200);
    await waitFor(() => order.length >= 20, { description: 'twenty jobs' });
    clearInterval(look);
    await worker.close(1_000);
    const ofOthers = order.slice(0, 20).filter((id) => others.includes(id)).length;
    // Of two keys chance decides each time.
    expect(ofOthers).toBeGreaterThanOrEqual(3);
    expect(ofOthers).toBeLessThanOrEqual(17);
  });

  test('no caller and no model has more jobs running than its bound, and others go past them', async () => {
    const running = new Map<string, number>();
    const most = new Map<string, number>();
    const tenant = { tenantId: uuidv7(), userId: uuidv7() };
    await queueJobs(database, 40, { ...tenant, model: 'slow' });
    await queueJobs(database, 40, { tenantId: tenant.tenantId, userId: uuidv7(), model: 'quick' });
    const { rows } = await database.pool.query('select id, subject_id, model from jobs');
    const keysOf = new Map(rows.map(({ id, subject_id, model }) => [id, [subject_id, model]]));
    const add = (jobId: string, change: number) => {
      for (const key of keysOf.get(jobId)!) {
        running.set(key, (running.get(key) ?? 0) + change);
        most.set(key, Math.max(most.get(key) ?? 0, running.get(key)!));
      }
    };
    const deps = workerDeps(database, async ({ jobId }) => {
      add(jobId, 1);
      await new Promise((resolve) => setTimeout(resolve, 2));
      add(jobId, -1);
    });
    const options = { concurrency: 32, bounds: { perSubject: 5, perModel: 3 } };
    const workers = [new JobWorker(deps, options), new JobWorker(deps, options)];
    // A worker looks again each second at lanes that another has kept full.
    const look = setInterval(() => {
      for (const worker of workers) worker.wake();
    }, 20);
    await waitFor(async () => (await completed()) === 80, { description: 'the end of all jobs', timeoutMs: 10_000 });
    clearInterval(look);
    expect(most.get('slow')).toBe(3);
    expect(most.get('quick')).toBe(3);
    await Promise.all(workers.map((worker) => worker.close(1_000)));
  });
});

describe('a worker that falls silent', () => {
  test('has its jobs run by another once its leases have lapsed; what it still says of them counts for nothing', async () => {
    await queueJobs(database, 3, { tenantId: uuidv7(), userId: uuidv7() });
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const clock = new ClockAhead();
    const eventIds: string[] = [];
    const stuck = new JobWorker(
      workerDeps(database, async ({ eventId }) => {
        eventIds.push(eventId);
        await released;
      }),
      workerDefaults,
    );
    await waitFor(() => stuck.running === 3 && eventIds.length === 3, { description: 'three running jobs' });
    const again: string[] = [];
    const other = new JobWorker(
      workerDeps(database, ({ eventId }) => void again.push(eventId), clock),
      workerDefaults,
    );
    other.reclaim();
    await other.close(0);
    // As long as they have not, nobody takes them.
    expect([await statuses(), again]).toEqual([{ 2: 3 }, []]);

    clock.aheadMs = 31_000;
    const third = new JobWorker(
      workerDeps(database, ({ eventId }) => void again.push(eventId), clock),
      workerDefaults,
    );
    third.reclaim();
    await waitFor(async () => (await completed()) === 3, { description: 'the end of all jobs' });
    // One event for both runs of a job: the second one is not charged again.
    expect(again.toSorted()).toEqual(eventIds.toSorted());
    release();
    await stuck.close(1_000);
    await third.close(1_000);
    const { rows } = await database.pool.query('select attempts, fence::int as fence from jobs');
    expect(rows).toEqual(rows.map(() => ({ attempts: 2, fence: 2 })));
    const results = await database.pool.query('select 1 from jobs where result is not null');
    expect(results.rowCount).toBe(3);
  });

  test.each(endings)('leaves a job when it learns that it %s, and keeps the others', async (_, end) => {
    const [, other] = await queueJobs(database, 2, { tenantId: uuidv7(), userId: uuidv7() });
    const held = Promise.withResolvers<void>();
    let isAborted = false;
    const deps = workerDeps(database, async ({ jobId }, signal) => {
      if (jobId === other) return held.promise;
      await new Promise<void>((resolve) => signal!.addEventListener('abort', () => resolve()));
      isAborted = true;
      throw new Error('aborted');
    });
    const worker = new JobWorker(deps, workerDefaults);
    await waitFor(async () => worker.running === 2 && (await statuses())[2] === 2, { description: 'running jobs' });
    await database.pool.query(`${end} where id <> $1`, [other]);
    const before = await database.pool.query('select status from jobs where id <> $1', [other]);
    await database.pool.query(`update jobs set lease_expires_at = now() where id = $1`, [other]);
    await worker.keepLeases();
    await waitFor(() => isAborted, { description: 'the abort of the call' });
    const leases = await database.pool.query('select from jobs where id = $1 and lease_expires_at > now()', [other]);
    expect(leases.rowCount).toBe(1);
    held.resolve();
    await worker.close(1_000);
    expect(await completed()).toBe(1);
    // Nothing was changed on behalf of the one who has it now.
    const after = await database.pool.query('select status from jobs where id <> $1', [other]);
    expect(after.rows).toEqual(before.rows);
  });

  test('a job that ends six workers is ended itself', async () => {
    await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
    await database.pool.query('update jobs set attempts = 6');
    const worker = new JobWorker(
      workerDeps(database, () => {
        throw new Error('it must not run');
      }),
      workerDefaults,
    );
    await waitFor(async () => (await statuses())[4] === 1, { description: 'the end of the job' });
    await worker.close(1_000);
  });
});

describe('a job that is no longer its worker’s', () => {
  const room = { leaseId: uuidv7(), fencingToken: 1n };
  const holding = (jobId: string) =>
    database.pool.query('update jobs set cost_max_nano_usd = 1, hold = $1', [
      Buffer.from(toBinary(JobHoldSchema, create(JobHoldSchema, { holderId: jobId, leases: [room] }))),
    ]);
  const measured = () => {
    const ended: string[] = [];
    return { ended, metrics: { ended: (outcome: string) => void ended.push(outcome), started() {}, retried() {} } };
  };

  test.each(endings)('makes no call where it %s while room was taken for it, and gives that back', async (_, end) => {
    const [jobId] = await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
    await database.pool.query('update jobs set cost_max_nano_usd = 1');
    let calls = 0;
    const released: unknown[] = [];
    const deps: JobWorkerDeps = {
      ...workerDeps(database, () => {
        calls += 1;
      }),
      billing: {
        async lease() {
          await database.pool.query(end);
          return create(LeaseResponseSchema, { leases: [{ id: room.leaseId, fencingToken: room.fencingToken }] });
        },
        settle: () => Promise.reject(new Error('there was no room')),
        async releaseHold({ holderId, leases }) {
          released.push({ holderId, leases });
          return create(ReleaseHoldResponseSchema);
        },
      },
    };
    const worker = new JobWorker(deps, workerDefaults);
    await waitFor(() => released.length > 0 || calls > 0, { description: 'the room to be given back' });
    await worker.close(1_000);
    expect({ calls, released }).toEqual({ calls: 0, released: [{ holderId: jobId, leases: [room] }] });
    const { rows } = await database.pool.query('select hold_expires_at from jobs');
    expect(rows).toEqual([{ hold_expires_at: null }]);
  });

  test.each(endings)(
    'keeps its room where it %s and the call fails: somebody else may run under it',
    async (_, end) => {
      const [jobId] = await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
      await holding(jobId!);
      const { ended, metrics } = measured();
      const released: unknown[] = [];
      const deps: JobWorkerDeps = {
        ...workerDeps(database, async () => {
          await database.pool.query(end);
          throw gatewayError(ErrorReason.INVALID_REQUEST, 'refused');
        }),
        metrics,
        billing: {
          lease: () => Promise.reject(new Error('there is room')),
          settle: async () => create(SettleResponseSchema, { leases: [{ state: LeaseState.HELD }] }),
          releaseHold: async (request) => {
            released.push(request);
            return create(ReleaseHoldResponseSchema);
          },
        },
      };
      const worker = new JobWorker(deps, workerDefaults);
      await waitFor(async () => worker.running === 0 && (await statuses())[1] === undefined, {
        description: 'the end of the run',
      });
      await worker.close(1_000);
      expect({ released, ended }).toEqual({ released: [], ended: [] });
      expect((await database.pool.query('select error from jobs')).rows).toEqual([{ error: null }]);
    },
  );

  test.each(endings)('stays as it is where it %s and the call fails for a moment', async (_, end) => {
    await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
    const errors: unknown[] = [];
    const deps: JobWorkerDeps = {
      ...workerDeps(database, async () => {
        await database.pool.query(end);
        throw gatewayError(ErrorReason.UPSTREAM_ERROR, 'broken');
      }),
      logger: { warn() {}, error: (...line: unknown[]) => void errors.push(line) } as never,
    };
    const worker = new JobWorker(deps, workerDefaults);
    await waitFor(async () => worker.running === 0 && (await statuses())[1] === undefined, {
      description: 'the end of the run',
    });
    const before = await statuses();
    await worker.close(1_000);
    expect([await statuses(), errors]).toEqual([before, []]);
    expect(before).not.toHaveProperty('1');
  });

  test.each(endings)('has no result of a run behind which it %s, however large', async (_, end) => {
    const [jobId] = await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
    const { ended, metrics } = measured();
    const deps = { ...workerDeps(database, async () => void (await database.pool.query(end))), metrics };
    const invoke: typeof deps.inference.invoke = async function* (request, options) {
      for await (const part of deps.inference.invoke(request, options)) {
        part.body = Buffer.alloc(inRowBytesMax + 1, 'x');
        yield part;
      }
    };
    const worker = new JobWorker({ ...deps, inference: { invoke } }, workerDefaults);
    await waitFor(async () => worker.running === 0 && (await statuses())[1] === undefined, {
      description: 'the end of the run',
    });
    await worker.close(1_000);
    const stored = await database.pool.query('select from job_bodies where job_id = $1', [jobId]);
    expect([stored.rowCount, ended]).toEqual([0, []]);
  });
});

describe('a job whose call cannot be made or breaks off', () => {
  const failed = async (change: (deps: JobWorkerDeps) => JobWorkerDeps, prepare = 'select') => {
    await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
    await database.pool.query(prepare);
    const worker = new JobWorker(change(workerDeps(database, () => {})), workerDefaults);
    const tried = 'select status, attempts, error from jobs where started_at is not null and status <> 2';
    const [row] = await waitFor(
      async () => {
        const { rows } = await database.pool.query(tried);
        return rows.length > 0 && rows;
      },
      { description: 'the end of the run', timeoutMs: 5_000 },
    );
    await worker.close(1_000);
    const reason = row.error === null ? null : fromBinary(ErrorDetailSchema, row.error).reason;
    return { status: row.status, attempts: row.attempts, reason };
  };
  const refusing = (reason: ErrorReason) => (deps: JobWorkerDeps) => ({
    ...deps,
    billing: { ...deps.billing, lease: () => Promise.reject(gatewayError(reason, 'no')) },
  });

  test.each([
    ErrorReason.SPEND_CAP_EXCEEDED,
    ErrorReason.COST_LIMIT_EXCEEDED,
    ErrorReason.PAYG_CAP_EXCEEDED,
    ErrorReason.CREDIT_BALANCE_EXHAUSTED,
  ])('fails where a budget refuses it (%d)', async (reason) => {
    const prepare = 'update jobs set cost_max_nano_usd = 1';
    expect(await failed(refusing(reason), prepare)).toEqual({ status: JobStatus.FAILED, attempts: 1, reason });
  });

  test('waits, without an attempt, while Billing is out of reach', async () => {
    const prepare = 'update jobs set cost_max_nano_usd = 1';
    const outcome = await failed(refusing(ErrorReason.OVERLOADED), prepare);
    expect(outcome).toEqual({ status: JobStatus.QUEUED, attempts: 0, reason: null });
  });

  test('fails where its user is no longer active', async () => {
    const outcome = await failed((deps) => ({
      ...deps,
      auth: { ...deps.auth, getUsers: async () => ({ users: [{ isActive: false }] }) as never },
    }));
    expect(outcome).toEqual({ status: JobStatus.FAILED, attempts: 1, reason: ErrorReason.INVALID_TOKEN });
  });

  test.each([
    ['the end of a stream that failed', create(InvokeEndSchema, { success: false })],
    ['no end', undefined],
  ])('is tried again behind an answer with %s: half an answer is no result', async (_, end) => {
    const outcome = await failed((deps) => ({
      ...deps,
      inference: {
        async *invoke() {
          const head = create(InvokeHeadSchema, { status: 200, contentType: 'application/json' });
          yield create(InvokeResponseSchema, { head, body: Buffer.from('{"half":'), end });
        },
      },
    }));
    expect(outcome).toEqual({ status: JobStatus.QUEUED, attempts: 1, reason: null });
  });

  test('is cut off at its deadline, and fails', async () => {
    const outcome = await failed(
      (deps) => ({
        ...deps,
        ...workerDeps(database, async (_request, signal) => {
          await new Promise<void>((resolve) => signal!.addEventListener('abort', () => resolve()));
          throw signal!.reason;
        }),
      }),
      `update jobs set deadline_at = now() + interval '300 milliseconds'`,
    );
    expect(outcome).toMatchObject({ status: JobStatus.FAILED, reason: ErrorReason.DEADLINE_EXCEEDED });
  });

  test('fails at once where the next attempt would come too late', async () => {
    const outcome = await failed(
      (deps) => ({
        ...deps,
        ...workerDeps(database, () => {
          throw gatewayError(ErrorReason.UPSTREAM_ERROR, 'broken');
        }),
      }),
      // The second attempt would come behind three quarters of a second.
      `update jobs set deadline_at = now() + interval '500 milliseconds'`,
    );
    expect(outcome).toEqual({ status: JobStatus.FAILED, attempts: 1, reason: ErrorReason.UPSTREAM_ERROR });
  });

  test('fails with what the upstream said, as the call at once does', async () => {
    const upstream = { status: 400, type: 'BadRequestError', code: 'bad_thing' };
    await failed((deps) => ({
      ...deps,
      ...workerDeps(database, () => {
        throw gatewayError(ErrorReason.UPSTREAM_REFUSED, 'no', { param: 'top_k', upstream });
      }),
    }));
    const { rows } = await database.pool.query('select error from jobs');
    const { details } = fromErrorDetail(fromBinary(ErrorDetailSchema, rows[0].error));
    expect(details).toMatchObject({ param: 'top_k', upstream });
  });
});

test('what a job asked for is forgotten with its end, however large', async () => {
  const tenant = { tenantId: uuidv7(), userId: uuidv7() };
  const ids = await queueJobs(database, 2, tenant);
  const large = ids[1]!;
  await writeBody(database.pool, { ...tenant, id: large }, bodyKinds.request, Buffer.alloc(inRowBytesMax + 1, ' '));
  await database.pool.query('update jobs set request = null where id = $1', [large]);
  const sizes: number[] = [];
  const worker = new JobWorker(
    workerDeps(database, ({ body }) => void sizes.push(body.byteLength)),
    workerDefaults,
  );
  await waitFor(async () => (await completed()) === 2, { description: 'the end of both' });
  await worker.close(1_000);
  expect(sizes.toSorted((a, b) => a - b)).toEqual([2, inRowBytesMax + 1]);
  const kept = await database.pool.query('select from jobs where request is not null');
  const bodies = await database.pool.query('select from job_bodies');
  expect([kept.rowCount, bodies.rowCount]).toEqual([0, 0]);
});

test('a job whose room has lapsed runs under none once nothing limits its caller', async () => {
  const [jobId] = await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  const lapsed = { holderId: jobId!, leases: [{ leaseId: uuidv7(), fencingToken: 1n }], costAllowedNanoUsd: 1n };
  await database.pool.query('update jobs set cost_max_nano_usd = 5, hold = $1, hold_expires_at = now()', [
    Buffer.from(toBinary(JobHoldSchema, create(JobHoldSchema, lapsed))),
  ]);
  let hold: JobHold | undefined;
  const deps: JobWorkerDeps = {
    ...workerDeps(database, (request) => {
      hold = request.hold;
    }),
    billing: {
      lease: async () => create(LeaseResponseSchema, { leases: [{ unlimited: true }] }),
      settle: async () => create(SettleResponseSchema, { leases: [{ state: LeaseState.LAPSED }] }),
      releaseHold: () => Promise.reject(new Error('nothing is held')),
    },
  };
  const worker = new JobWorker(deps, workerDefaults);
  await waitFor(async () => (await completed()) === 1, { description: 'the end of the job' });
  await worker.close(1_000);
  expect(hold).toMatchObject({ holderId: jobId, leases: [] });
  expect(hold?.costAllowedNanoUsd).toBeUndefined();
});

test('an answer is kept while the database is away, and stored once it is back: the job runs once', async () => {
  await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  let isAway = true;
  let runs = 0;
  const query: typeof database.query = async (statement) => {
    if (statement.name !== 'jobs-end' || !isAway) return database.query(statement);
    isAway = false;
    throw gatewayError(ErrorReason.OVERLOADED, 'away');
  };
  const deps = workerDeps({ ...database, query }, () => {
    runs += 1;
  });
  const worker = new JobWorker(deps, workerDefaults);
  await waitFor(async () => (await completed()) === 1, { description: 'the end of the job' });
  await worker.close(1_000);
  expect([isAway, runs]).toEqual([false, 1]);
});

test('a model that had no room for a moment gets more and more calls at a time from then on', async () => {
  await queueJobs(database, 60, { tenantId: uuidv7(), userId: uuidv7() });
  // All that are taken together find no room.
  const concurrency = 30;
  let refused = 0;
  let running = 0;
  let most = 0;
  const deps = workerDeps(database, async () => {
    if (refused < concurrency) {
      refused += 1;
      throw gatewayError(ErrorReason.NO_CAPACITY, 'full');
    }
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setTimeout(resolve, 5));
    running -= 1;
  });
  const worker = new JobWorker(deps, { ...workerDefaults, concurrency });
  const look = setInterval(() => worker.wake(), 100);
  await waitFor(async () => (await completed()) === 60, { description: 'the end of all jobs', timeoutMs: 10_000 });
  clearInterval(look);
  await worker.close(1_000);
  expect(most).toBeGreaterThanOrEqual(8);
});

test('a worker that stops gives back what has not ended, and another goes on at once', async () => {
  await queueJobs(database, 2, { tenantId: uuidv7(), userId: uuidv7() });
  const deps = workerDeps(database, async (_request, signal) => {
    await new Promise<void>((resolve) => signal!.addEventListener('abort', () => resolve()));
    throw new Error('aborted');
  });
  const first = new JobWorker(deps, workerDefaults);
  await waitFor(() => first.running === 2, { description: 'running jobs' });
  await first.close(0);
  expect(await statuses()).toEqual({ 1: 2 });
  const second = new JobWorker(
    workerDeps(database, () => {}),
    workerDefaults,
  );
  await waitFor(async () => (await completed()) === 2, { description: 'the end of both' });
  await second.close(1_000);
  const { rows } = await database.pool.query('select attempts from jobs');
  expect(rows).toEqual([{ attempts: 1 }, { attempts: 1 }]);
});

test('a result that cannot be stored keeps no other job from its end', async () => {
  const [, culprit] = await queueJobs(database, 3, { tenantId: uuidv7(), userId: uuidv7() });
  const deps = workerDeps(database, () => {});
  // Postgres has no such character in a text.
  const invoke: typeof deps.inference.invoke = async function* (request, options) {
    for await (const part of deps.inference.invoke(request, options)) {
      if (request.jobId === culprit) part.head!.contentType = 'text/\0';
      yield part;
    }
  };
  const worker = new JobWorker({ ...deps, inference: { invoke } }, workerDefaults);
  await waitFor(async () => (await completed()) === 2, { description: 'the end of the others', timeoutMs: 5_000 });
  await worker.close(1_000);
  const { rows } = await database.pool.query('select id from jobs where status <> 3');
  expect(rows).toEqual([{ id: culprit }]);
});

test('a job that was cancelled while its worker could not hear it is left once it hears again, and not with its next lease', async () => {
  let isAborted = false;
  const deps = workerDeps(database, async (_, signal) => {
    await new Promise<void>((resolve) => signal!.addEventListener('abort', () => resolve()));
    isAborted = true;
    throw new Error('aborted');
  });
  const worker = await startJobWorker({ ...deps, connection: url, registry: new Registry(), drainMs: 1_000 });
  await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  await waitFor(async () => (await statuses())[2] === 1, { description: 'the job to run', timeoutMs: 3_000 });
  const [[, cancel]] = endings as [(typeof endings)[number]];
  await database.pool.query(cancel);
  const listeners = "application_name = 'modelgateway-listen' and datname = current_database()";
  await rowsOf(url, `select pg_terminate_backend(pid) from pg_stat_activity where ${listeners}`);
  await waitFor(() => isAborted, { description: 'the abort of the call', timeoutMs: leaseMs / 6 });
  await worker.close();
});

test('jobs are found without a notification, by the look once a second', async () => {
  const deps = workerDeps(database, () => {});
  const worker = await startJobWorker({
    ...deps,
    connection: url,
    registry: new Registry(),
    drainMs: 1_000,
  });
  await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  await waitFor(async () => (await completed()) === 1, { description: 'the end of the job', timeoutMs: 3_000 });
  await worker.close();
});
