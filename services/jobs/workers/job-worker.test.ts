import { create, toBinary } from '@bufbuild/protobuf';
import { Registry } from 'prom-client';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  LeaseResponseSchema,
  ReleaseHoldResponseSchema,
  SettleResponseSchema,
} from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { type InvokeRequest, type JobHold, JobHoldSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7, uuidv7Ms } from '#shared/ids.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { bodyKinds, inRowBytesMax, writeBody } from '../db/bodies.ts';
import { keptBytesMax } from '../domain/quotas.ts';
import { ownJobsDatabase, queueJobs, workerDeps } from '../fixtures/test-queue.ts';
import { JobWorker, type JobWorkerDeps, workerDefaults } from './job-worker.ts';
import { startJobWorker } from './start.ts';

const { database, url, statuses, completed } = await ownJobsDatabase();
beforeEach(() => database.pool.query('delete from jobs'));

/** 10,000 in the long run (LONG=1). */
const jobsQueued = process.env.LONG === '1' ? 10_000 : 1_000;

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
    // What two workers take at once is shared out evenly; within that the order is random.
    expect(apart).toBeLessThanOrEqual(10);
  });

  test("a newcomer does not wait for someone else's long queue", async () => {
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

  test('jobs of an organization that has as many results as it may wait until some are gone', async () => {
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
  ])('if a model takes one call at a time, %s take turns', async (_, otherOf) => {
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
    // A worker checks a model without room again every second.
    const look = setInterval(() => worker.wake(), 200);
    await waitFor(() => order.length >= 20, { description: 'twenty jobs' });
    clearInterval(look);
    await worker.close(1_000);
    const ofOthers = order.slice(0, 20).filter((id) => others.includes(id)).length;
    // Between two keys chance decides each time.
    expect(ofOthers).toBeGreaterThanOrEqual(3);
    expect(ofOthers).toBeLessThanOrEqual(17);
  });

  test('no caller and no model has more jobs running than its bound, and others pass them by', async () => {
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
    // A worker checks lanes that another has kept full again every second.
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

describe('while the requests of running jobs take all the memory for them', () => {
  const options = { concurrency: 32, bounds: { perSubject: 100, perModel: 100 } };
  const someone = () => ({ tenantId: uuidv7(), userId: uuidv7() });
  const makeLarge = (tenant: { tenantId: string }) =>
    database.pool.query('update jobs set body_bytes = 400000 where tenant_id = $1', [tenant.tenantId]);
  /** Runs three large jobs: the third begins with 200,000 bytes left. */
  function slowWorker(bodiesBytesMax = 1_000_000) {
    const started: { id: string; end: () => void }[] = [];
    const deps = workerDeps(database, ({ jobId }, signal) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      started.push({ id: jobId, end: resolve });
      signal!.addEventListener('abort', () => resolve());
      return promise;
    });
    return { started, worker: new JobWorker({ ...deps, bodiesBytesMax }, options) };
  }

  test('no large one begins, and organizations still take turns', async () => {
    const tenants = Array.from({ length: 3 }, someone);
    for (const tenant of tenants) await queueJobs(database, 10, tenant);
    for (const tenant of tenants) await makeLarge(tenant);
    const { rows } = await database.pool.query('select id, tenant_id from jobs');
    const tenantOf = new Map(rows.map(({ id, tenant_id }) => [id, tenant_id]));
    const { started, worker } = slowWorker();
    for (let ended = 0; ended < 15; ended += 1) {
      await waitFor(() => started.length === ended + 3, { description: 'a third job' });
      expect(worker.running).toBe(3);
      started[ended]!.end();
    }
    for (const { tenantId } of tenants) {
      expect(started.slice(0, 15).filter(({ id }) => tenantOf.get(id) === tenantId)).toHaveLength(5);
    }
    await worker.close(0);
  });

  test('an organization whose jobs are of many users begins no more of them than another', async () => {
    const [crowd, single] = [someone(), someone()];
    for (let users = 0; users < 10; users += 1) await queueJobs(database, 1, { ...crowd, userId: uuidv7() });
    const ofSingle = await queueJobs(database, 10, single);
    for (const tenant of [crowd, single]) await makeLarge(tenant);
    const { started, worker } = slowWorker(2_200_000);
    await waitFor(() => started.length === 6, { description: 'as many jobs as there is memory for' });
    expect(started.filter(({ id }) => ofSingle.includes(id))).toHaveLength(3);
    await worker.close(0);
  });

  test.each([
    ['one organization', 1],
    ['more organizations than a worker has slots', 40],
  ])('of %s, small jobs of others begin at once, and a large one as soon as there is room', async (_, count) => {
    for (const large of Array.from({ length: count }, someone)) {
      await queueJobs(database, 20, large);
      await makeLarge(large);
    }
    const { started, worker } = slowWorker();
    await waitFor(() => started.length === 3, { description: 'large jobs that take the memory' });
    const small = someone();
    // Their turn comes after everybody else's.
    await database.pool.query('insert into served_tenants select $1, now()', [small.tenantId]);
    await queueJobs(database, 20, small);
    worker.wake();
    await waitFor(() => started.length === 23, { description: 'all small jobs' });
    for (const { end } of started.slice(3)) end();
    await waitFor(() => worker.running === 3, { description: 'the end of the small jobs' });
    started[0]!.end();
    await waitFor(() => started.length === 24, { description: 'another large job' });
    await worker.close(0);
  });
});

test("a job's request is deleted when it ends, however large", async () => {
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

test('large requests that are read slowly leave connections for everything else', async () => {
  const tenant = { tenantId: uuidv7(), userId: uuidv7() };
  for (const id of await queueJobs(database, 12, tenant)) {
    await writeBody(database.pool, { ...tenant, id }, bodyKinds.request, Buffer.alloc(inRowBytesMax + 1, ' '));
  }
  await database.pool.query('update jobs set request = null');
  const slow = await database.pool.connect();
  await slow.query('begin');
  await slow.query('lock table job_bodies in access exclusive mode');
  const worker = new JobWorker(
    workerDeps(database, () => {}),
    workerDefaults,
  );
  const waiting = async () => (await slow.query('select from pg_locks where not granted')).rowCount!;
  await waitFor(async () => (await waiting()) >= 4, { description: 'the reading of requests' });
  expect(await database.query({ text: 'select 1 as one' })).toMatchObject({ rows: [{ one: 1 }] });
  await slow.query('rollback');
  slow.release();
  await waitFor(async () => (await completed()) === 12, { description: 'the end of all' });
  await worker.close(1_000);
});

test.each([
  { is: 'runs under none once nothing limits its caller', unlimited: true, leases: 0, allowed: undefined },
  { is: 'runs under new room, which is renewed while it runs', unlimited: false, leases: 1, allowed: 3n },
])('a job whose room has lapsed $is', async ({ unlimited, leases, allowed }) => {
  const [jobId] = await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  const lapsed = { holderId: jobId!, leases: [{ leaseId: uuidv7(), fencingToken: 1n }], costAllowedNanoUsd: 1n };
  await database.pool.query('update jobs set cost_max_nano_usd = 5, hold = $1, hold_expires_at = now()', [
    Buffer.from(toBinary(JobHoldSchema, create(JobHoldSchema, lapsed))),
  ]);
  let hold: JobHold | undefined;
  let isRenewed: boolean | undefined;
  const deps: JobWorkerDeps = {
    ...workerDeps(database, async (request) => {
      hold = request.hold;
      isRenewed = (await database.pool.query('select from jobs where hold_expires_at > now()')).rowCount === 1;
    }),
    billing: {
      lease: async () => {
        const lease = { id: uuidv7(), fencingToken: 1n, unlimited };
        return create(LeaseResponseSchema, { leases: [lease], costAllowedNanoUsd: 3n });
      },
      settle: async () => create(SettleResponseSchema, { leases: [{ state: LeaseState.LAPSED }] }),
      releaseHold: async () => create(ReleaseHoldResponseSchema),
      voidCharge: () => expect.fail('its first run'),
    },
  };
  const worker = new JobWorker(deps, workerDefaults);
  await waitFor(async () => (await completed()) === 1, { description: 'the end of the job' });
  await worker.close(1_000);
  expect(hold).toMatchObject({ holderId: jobId });
  expect(hold!.leases).toHaveLength(leases);
  expect(hold!.leases.map(({ leaseId }) => leaseId)).not.toContain(lapsed.leases[0]!.leaseId);
  expect(hold!.costAllowedNanoUsd).toBe(allowed);
  expect(isRenewed).toBe(!unlimited);
});

test.each([
  { is: 'holds room by itself', isCharged: false },
  { is: 'needs no room if it was charged', isCharged: true },
])(
  'the call of a job that cost nothing at its submission, and runs again after its worker died, $is',
  async ({ isCharged }) => {
    const [jobId] = await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
    await database.pool.query('update jobs set started_at = now(), was_lost = true');
    const asked: unknown[] = [];
    let request: InvokeRequest | undefined;
    const deps = workerDeps(database, (made) => {
      request = made;
    });
    const lease: (typeof deps)['billing']['lease'] = async ({ usageEventId, demands }) => {
      asked.push([usageEventId, demands]);
      return create(LeaseResponseSchema, { isCharged });
    };
    const worker = new JobWorker({ ...deps, billing: { ...deps.billing, lease } }, workerDefaults);
    await waitFor(async () => (await completed()) === 1, { description: 'the end of the job' });
    await worker.close(1_000);
    expect(asked).toEqual([[request!.eventId, []]]);
    expect([request!.jobId, request!.hold?.leases]).toEqual([jobId, isCharged ? [] : undefined]);
  },
);

test('a job that has lost a part of its room gives the rest back before it takes all of it anew', async () => {
  const [jobId] = await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  const leases = [uuidv7(), uuidv7()].map((leaseId) => ({ leaseId, fencingToken: 1n }));
  await database.pool.query('update jobs set cost_max_nano_usd = 5, hold = $1, hold_expires_at = now()', [
    Buffer.from(toBinary(JobHoldSchema, create(JobHoldSchema, { holderId: jobId!, leases }))),
  ]);
  const asked: unknown[] = [];
  const deps: JobWorkerDeps = {
    ...workerDeps(database, () => {}),
    billing: {
      settle: async () =>
        create(SettleResponseSchema, { leases: [{ state: LeaseState.LAPSED }, { state: LeaseState.HELD }] }),
      voidCharge: () => expect.fail('its first run'),
      async releaseHold({ leases }) {
        asked.push(leases!.map(({ leaseId }) => leaseId));
        return create(ReleaseHoldResponseSchema);
      },
      async lease() {
        asked.push('new room');
        return create(LeaseResponseSchema, { leases: [{ unlimited: true }] });
      },
    },
  };
  const worker = new JobWorker(deps, workerDefaults);
  await waitFor(async () => (await completed()) === 1, { description: 'the end of the job' });
  await worker.close(1_000);
  expect(asked).toEqual([leases.map(({ leaseId }) => leaseId), 'new room']);
});

test('while the database is away an answer is kept, and each failure to extend its lease is not a warning: the job runs once', async () => {
  await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  const { lines, logger } = logCollector('warn');
  let isAway = true;
  let runs = 0;
  const query: typeof database.query = async (statement) => {
    if (!isAway || !['jobs-end', 'jobs-extend-leases'].includes(statement.name!)) return database.query(statement);
    throw gatewayError(ErrorReason.OVERLOADED, 'away');
  };
  const deps = workerDeps({ ...database, query }, () => {
    runs += 1;
  });
  const worker = new JobWorker({ ...deps, logger }, workerDefaults);
  await waitFor(() => runs === 1, { description: 'the job to run' });
  for (let times = 0; times < 5; times += 1) await worker.keepLeases();
  isAway = false;
  await waitFor(async () => (await completed()) === 1, { description: 'the end of the job' });
  await worker.close(1_000);
  expect([runs, lines.filter(({ msg }) => String(msg).startsWith('extending'))]).toMatchObject([1, [{ failures: 2 }]]);
});

test('a model that briefly had no room gets more and more calls at a time afterwards', async () => {
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

test('a job whose model is full makes no attempt and waits in the queue, even if its turn cannot be returned and the database is away for a moment', async () => {
  await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  let refusals = 0;
  const deps = workerDeps(database, () => {
    refusals += 1;
    throw gatewayError(ErrorReason.NO_CAPACITY, 'full');
  });
  let isAway = true;
  const query: typeof database.query = async (statement) => {
    if (statement.name === 'jobs-return-turn') throw gatewayError(ErrorReason.OVERLOADED, 'a lock was not obtained');
    if (statement.name === 'jobs-requeue' && isAway) {
      isAway = false;
      throw gatewayError(ErrorReason.OVERLOADED, 'the database is out of reach');
    }
    return database.query(statement);
  };
  const worker = new JobWorker({ ...deps, database: { ...database, query } }, workerDefaults);
  await waitFor(() => refusals > 0 && worker.running === 0, { description: 'the end of the run' });
  await worker.close(1_000);
  const { rows } = await database.pool.query('select status, attempts from jobs');
  expect(rows).toEqual([{ status: JobStatus.QUEUED, attempts: 0 }]);
});

test('a job starts with the first call that its model has room for, not when it is refused one', async () => {
  await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  const seen = async () => (await database.pool.query('select status, created_at, started_at from jobs')).rows[0]!;
  const waits: number[] = [];
  const eventIds: string[] = [];
  let isFull = true;
  const deps = workerDeps(database, ({ eventId }) => {
    eventIds.push(eventId);
    if (isFull) throw gatewayError(ErrorReason.NO_CAPACITY, 'full');
  });
  const metrics = { ...deps.metrics, started: (waitedMs: number) => waits.push(waitedMs) };
  const worker = new JobWorker({ ...deps, metrics }, workerDefaults);
  const look = setInterval(() => worker.wake(), 100);
  for (const refusals of [1, 2]) {
    await waitFor(() => eventIds.length === refusals, { description: 'a refusal' });
    await waitFor(() => worker.running === 0, { description: 'the end of the run' });
    expect(await seen()).toMatchObject({ status: JobStatus.QUEUED, started_at: null });
  }
  const [{ now }] = (await database.pool.query('select clock_timestamp() as now')).rows;
  isFull = false;
  await waitFor(async () => (await completed()) === 1, { description: 'the end of the job' });
  clearInterval(look);
  await worker.close(1_000);
  const { created_at, started_at } = await seen();
  const startedMs = started_at.getTime();
  expect(startedMs).toBeGreaterThanOrEqual(now.getTime());
  // Priced and reported as of then.
  expect(uuidv7Ms(eventIds[2]!)).toBe(startedMs);
  expect(waits).toEqual([startedMs - created_at.getTime()]);
});

test('a job that waits for a part of the gateway that is out of reach has not started', async () => {
  await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  const waits: number[] = [];
  const deps = workerDeps(database, () => {});
  const metrics = { ...deps.metrics, started: (waitedMs: number) => waits.push(waitedMs) };
  let isAway = true;
  const getUsers: typeof deps.auth.getUsers = async (...asked) => {
    if (isAway) throw gatewayError(ErrorReason.OVERLOADED, 'away');
    return deps.auth.getUsers(...asked);
  };
  const worker = new JobWorker({ ...deps, metrics, auth: { ...deps.auth, getUsers } }, workerDefaults);
  const requeued = `status = ${JobStatus.QUEUED} and available_at > now()`;
  const isRequeued = async () => (await database.pool.query(`select from jobs where ${requeued}`)).rowCount === 1;
  await waitFor(isRequeued, { description: 'the job back in the queue' });
  expect((await database.pool.query('select started_at from jobs')).rows).toEqual([{ started_at: null }]);
  isAway = false;
  const { rows } = await database.pool.query(
    'update jobs set available_at = clock_timestamp() returning available_at as now',
  );
  worker.wake();
  await waitFor(async () => (await completed()) === 1, { description: 'the end of the job' });
  await worker.close(1_000);
  const [{ created_at, started_at }] = (await database.pool.query('select created_at, started_at from jobs')).rows;
  expect(started_at.getTime()).toBeGreaterThanOrEqual(rows[0]!.now.getTime());
  expect(waits).toEqual([started_at.getTime() - created_at.getTime()]);
});

test('a worker that stops returns unfinished jobs, and another continues at once', async () => {
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

test('a result that cannot be stored does not keep another job from ending', async () => {
  const [, culprit] = await queueJobs(database, 3, { tenantId: uuidv7(), userId: uuidv7() });
  const deps = workerDeps(database, () => {});
  // Postgres cannot store this character in text.
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

test('jobs are found without a notification, by checking once a second', async () => {
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
