import { create, toBinary } from '@bufbuild/protobuf';
import type { PoolClient } from 'pg';
import { Registry } from 'prom-client';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  LeaseResponseSchema,
  ReleaseHoldResponseSchema,
  SettleResponseSchema,
  VoidChargeResponseSchema,
} from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { JobHoldSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { ClockAhead } from '../../../test/support/clock-ahead.ts';
import { rowsOf } from '../../../test/support/postgres.ts';
import { startPostgresProxy } from '../../../test/support/postgres-proxy.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { inRowBytesMax } from '../db/bodies.ts';
import { dueStatement, reclaimLapsed } from '../db/leases.ts';
import { leaseMs } from '../db/take-jobs.ts';
import { successEventId } from '../domain/success-event.ts';
import { openJobsDatabase, ownJobsDatabase, queueJobs, workerDeps } from '../fixtures/test-queue.ts';
import { removeExpired, returnHolds } from './housekeeping.ts';
import { JobWorker, type JobWorkerDeps, workerDefaults } from './job-worker.ts';
import { startJobWorker } from './start.ts';

const { database, url, statuses, completed } = await ownJobsDatabase();
beforeEach(() => database.pool.query('delete from jobs'));

/** How a job stops belonging to its worker without notice. */
const endings: [what: string, end: string][] = [
  [
    'was cancelled, unheard of',
    `update jobs set status = ${JobStatus.CANCELLED}, worker_id = null, lease_expires_at = null,
      ended_at = now(), expires_at = now() + interval '1 day'`,
  ],
  ['was taken by another worker', 'update jobs set fence = fence + 1'],
];

describe('a worker that falls silent', () => {
  test('has its jobs run by another once its leases have lapsed, and nothing it says about them counts any more', async () => {
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
    // One event for both runs of a job: the second is not charged again.
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
    // Nothing was changed on behalf of whoever has it now.
    const after = await database.pool.query('select status from jobs where id <> $1', [other]);
    expect(after.rows).toEqual(before.rows);
  });

  test('is told of once a minute while its jobs cannot be taken over, not each second', async () => {
    const { lines, logger } = logCollector('info');
    const denied = new Error('cannot execute UPDATE in a read-only transaction');
    const refusing = { ...database, query: () => Promise.reject(denied) };
    const worker = new JobWorker({ ...workerDeps(refusing, () => {}), logger }, workerDefaults);
    for (let second = 0; second < 10; second += 1) worker.reclaim();
    await worker.close(0);
    expect(lines.filter(({ msg }) => String(msg).includes('lost workers'))).toHaveLength(1);
  });

  test('a job that ends six workers is itself ended', async () => {
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

describe('after the database’s clock went back', () => {
  const isDue = async () => (await database.query(dueStatement(0))).rows[0];

  test('jobs that waited for another attempt are run at once', async () => {
    await queueJobs(database, 2, { tenantId: uuidv7(), userId: uuidv7() });
    await database.pool.query(`update jobs set available_at = available_at + interval '1 hour'`);
    expect(await isDue()).toMatchObject({ is_queued: true });
    await using stack = new AsyncDisposableStack();
    const worker = new JobWorker(
      workerDeps(database, () => {}),
      workerDefaults,
    );
    stack.defer(() => worker.close(1_000));
    await waitFor(async () => (await completed()) === 2, { description: 'the end of both jobs' });
  });

  test('the jobs of a worker that had died before are run once a new lease would have lapsed, and a live one keeps its own', async () => {
    await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
    await database.pool.query(
      `update jobs set status = ${JobStatus.IN_PROGRESS}, worker_id = id, fence = 1, attempts = 1, started_at = now(),
        lease_expires_at = now() + interval '1 hour'`,
    );
    expect(await isDue()).toMatchObject({ is_lapsed: true });
    const clock = new ClockAhead();
    await using stack = new AsyncDisposableStack();
    const worker = new JobWorker(
      workerDeps(database, () => {}, clock),
      workerDefaults,
    );
    stack.defer(() => worker.close(1_000));
    worker.reclaim();
    await waitFor(async () => (await isDue())?.is_lapsed === false, { description: 'the lease to be of now' });
    expect(await statuses()).toEqual({ [JobStatus.IN_PROGRESS]: 1 });
    clock.aheadMs = leaseMs + 1_000;
    worker.reclaim();
    await waitFor(async () => (await completed()) === 1, { description: 'the end of the job' });
  });
});

describe('a job that no longer belongs to its worker', () => {
  const room = { leaseId: uuidv7(), fencingToken: 1n };
  const holding = (jobId: string) =>
    database.pool.query('update jobs set cost_max_nano_usd = 1, hold = $1', [
      Buffer.from(toBinary(JobHoldSchema, create(JobHoldSchema, { holderId: jobId, leases: [room] }))),
    ]);
  const measured = () => {
    const ended: string[] = [];
    return { ended, metrics: { ended: (outcome: string) => void ended.push(outcome), started() {}, retried() {} } };
  };

  /** A worker whose only job has been run, however that ended. */
  async function workerAfterRun(deps: JobWorkerDeps): Promise<JobWorker> {
    let calls = 0;
    const invoke: typeof deps.inference.invoke = (request, options) => {
      calls += 1;
      return deps.inference.invoke(request, options);
    };
    const worker = new JobWorker({ ...deps, inference: { invoke } }, workerDefaults);
    await waitFor(() => calls > 0 && worker.running === 0, { description: 'the end of the run' });
    return worker;
  }

  test.each(endings)('makes no call if it %s while room was taken for it, and returns that room', async (_, end) => {
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
        voidCharge: async () => create(VoidChargeResponseSchema),
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
    'keeps its room if it %s and the call fails: someone else may be running under it',
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
          voidCharge: async () => create(VoidChargeResponseSchema),
          releaseHold: async (request) => {
            released.push(request);
            return create(ReleaseHoldResponseSchema);
          },
        },
      };
      const worker = await workerAfterRun(deps);
      await worker.close(1_000);
      expect({ released, ended }).toEqual({ released: [], ended: [] });
      expect((await database.pool.query('select error from jobs')).rows).toEqual([{ error: null }]);
    },
  );

  test.each(endings)('stays as it is if it %s and the call fails temporarily', async (_, end) => {
    await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
    const errors: unknown[] = [];
    const deps: JobWorkerDeps = {
      ...workerDeps(database, async () => {
        await database.pool.query(end);
        throw gatewayError(ErrorReason.UPSTREAM_ERROR, 'broken');
      }),
      logger: { warn() {}, error: (...line: unknown[]) => void errors.push(line) } as never,
    };
    const worker = await workerAfterRun(deps);
    const before = await statuses();
    await worker.close(1_000);
    expect([await statuses(), errors]).toEqual([before, []]);
    expect(before).not.toHaveProperty('1');
  });

  const removal: (typeof endings)[number] = ['was deleted', 'delete from jobs'];
  test.each([...endings, removal])('has no result when it %s after its run, however large', async (_, end) => {
    const [jobId] = await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
    const { ended, metrics } = measured();
    const warnings: unknown[] = [];
    const logger = { warn: (...line: unknown[]) => void warnings.push(line), error() {} } as never;
    const deps = { ...workerDeps(database, async () => void (await database.pool.query(end))), metrics, logger };
    const invoke: typeof deps.inference.invoke = async function* (request, options) {
      for await (const part of deps.inference.invoke(request, options)) {
        part.body = Buffer.alloc(inRowBytesMax + 1, 'x');
        yield part;
      }
    };
    const worker = await workerAfterRun({ ...deps, inference: { invoke } });
    await worker.close(1_000);
    const stored = await database.pool.query('select from job_bodies where job_id = $1', [jobId]);
    expect([stored.rowCount, ended, warnings]).toEqual([0, [], []]);
  });
});

test('a job cancelled while its worker was disconnected is left as soon as the worker reconnects, not with its next lease', async () => {
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

describe('an answer that was lost with its worker', () => {
  const tenant = { tenantId: uuidv7(), userId: uuidv7() };
  /** The event for the success of the first job, after its worker has fallen silent. */
  async function lostRun(): Promise<string> {
    const [id] = await queueJobs(database, 1, tenant);
    const { rows } = await database.pool.query(
      `update jobs set status = ${JobStatus.IN_PROGRESS}, worker_id = id, fence = 1, attempts = 1, started_at = now(),
        available_at = '-infinity', lease_expires_at = now() where id = $1 returning started_at`,
      [id],
    );
    expect(await reclaimLapsed(database, 0)).toBe(1);
    // Until then it ran, and did not wait.
    const { rowCount } = await database.pool.query('select from jobs where available_at >= started_at');
    expect(rowCount).toBe(1);
    return successEventId(id!, rows[0].started_at.getTime());
  }

  /** A worker whose Billing voids charges unless it is away, and what it voided. */
  function voiding(answer: Parameters<typeof workerDeps>[1]) {
    const voided: unknown[] = [];
    const billing = { isAway: false };
    const deps = workerDeps(database, answer);
    deps.billing.voidCharge = async ({ tenantId, usageEventId }) => {
      if (billing.isAway) throw gatewayError(ErrorReason.OVERLOADED, 'away');
      voided.push([tenantId, usageEventId]);
      return create(VoidChargeResponseSchema);
    };
    return { deps, billing, voided };
  }
  const refuse = () => Promise.reject(gatewayError(ErrorReason.INVALID_REQUEST, 'refused'));

  test('is paid for by nobody once its job has failed, and while Billing is away its job ends and holds up no other', async () => {
    const lost = await lostRun();
    const [other] = await queueJobs(database, 1, tenant);
    const { deps, billing, voided } = voiding(({ jobId }) => (jobId === other ? undefined : refuse()));
    billing.isAway = true;
    const worker = new JobWorker(deps, { ...workerDefaults, concurrency: 1 });
    await using stack = new AsyncDisposableStack();
    stack.defer(() => worker.close(0));
    const both = { [JobStatus.FAILED]: 1, [JobStatus.COMPLETED]: 1 };
    await waitFor(async () => (await completed()) === 1, { description: 'the end of the other job' });
    expect(await statuses()).toEqual(both);
    expect(await returnHolds(deps)).toBe(0);
    // Until Billing has heard of it, it is remembered for longer than its owner sees it.
    const aDayLater = { database, clock: new ClockAhead() };
    aDayLater.clock.aheadMs = 86_460_000;
    expect(await removeExpired(aDayLater)).toBe(1);
    billing.isAway = false;
    expect([await returnHolds(deps), await returnHolds(deps)]).toEqual([1, 0]);
    expect(voided).toEqual([[tenant.tenantId, lost]]);
    expect(await removeExpired(aDayLater)).toBe(1);
  });

  test.each([
    ['another worker has its job meanwhile, whose answer may be charged', 'update jobs set fence = fence + 1'],
    ['nothing was lost', 'update jobs set was_lost = false'],
  ])('is not given back if %s', async (_, meanwhile) => {
    await lostRun();
    if (meanwhile.includes('was_lost')) await database.pool.query(meanwhile);
    let calls = 0;
    const { deps, voided } = voiding(async () => {
      await database.pool.query(meanwhile);
      calls += 1;
      return refuse();
    });
    const worker = new JobWorker(deps, workerDefaults);
    await waitFor(() => calls === 1 && worker.running === 0, { description: 'the end of the run' });
    await worker.close(0);
    expect(voided).toEqual([]);
  });

  test('is given back too if its worker left the call to stop', async () => {
    await queueJobs(database, 1, tenant);
    let isCalled = false;
    const stopping = new JobWorker(
      workerDeps(database, async (_, signal) => {
        isCalled = true;
        await new Promise((resolve) => signal!.addEventListener('abort', resolve));
        throw signal!.reason;
      }),
      workerDefaults,
    );
    await waitFor(() => isCalled, { description: 'the call' });
    await stopping.close(0);
    const { deps, voided } = voiding(refuse);
    const worker = new JobWorker(deps, workerDefaults);
    await waitFor(() => voided.length === 1, { description: 'the end of its job' });
    await worker.close(0);
  });
});

/** A database that holds back the answers to commits, as a slow network would, until `learned`; `taken` once it does. */
function withheldCommits() {
  const taken = Promise.withResolvers<void>();
  const learned = Promise.withResolvers<void>();
  const withholding = (client: PoolClient): PoolClient =>
    Object.create(client, {
      query: {
        value: async (...statement: Parameters<PoolClient['query']>) => {
          const answer = await client.query(...statement);
          if (String(statement[0]) !== 'commit') return answer;
          taken.resolve();
          await learned.promise;
          return answer;
        },
      },
    });
  const pool = Object.create(database.pool, {
    connect: { value: async () => withholding(await database.pool.connect()) },
  });
  return { taken, learned, database: { ...database, pool } };
}

test('a job that is cancelled just after it was taken, before the worker has learned that it has it, is never called', async () => {
  const { taken, learned, database: slow } = withheldCommits();
  const called: string[] = [];
  const deps = workerDeps(slow, ({ jobId }) => void called.push(jobId));
  const [cancelled] = await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  const worker = new JobWorker(deps, workerDefaults);
  await taken.promise;
  const [[, cancel]] = endings as [(typeof endings)[number]];
  await database.pool.query(cancel);
  worker.cancel(cancelled!);
  const [other] = await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  worker.wake();
  learned.resolve();
  await waitFor(() => called.includes(other!), { description: 'the job that came after it' });
  await worker.close(1_000);
  expect(called).toEqual([other]);
});

test('nor does it go on if the cancellation was missed, once its worker has learned that it has it', async () => {
  const { taken, learned, database: slow } = withheldCommits();
  let isAborted = false;
  const deps = workerDeps(slow, async (_, signal) => {
    await new Promise<void>((resolve) => signal!.addEventListener('abort', () => resolve()));
    isAborted = true;
    throw new Error('aborted');
  });
  await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  const worker = new JobWorker(deps, workerDefaults);
  await taken.promise;
  const [[, cancel]] = endings as [(typeof endings)[number]];
  await database.pool.query(cancel);
  const caughtUp = worker.catchUp();
  learned.resolve();
  await caughtUp;
  await waitFor(() => isAborted, { description: 'the abort of the call', timeoutMs: leaseMs / 6 });
  await worker.close(1_000);
});

test('a worker runs no job before it can hear that one is cancelled', async () => {
  await using proxy = await startPostgresProxy(url);
  await proxy.set({ kind: 'deny', text: 'listen "' });
  let ran = 0;
  const deps = workerDeps(database, () => {
    ran += 1;
  });
  await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
  const starting = startJobWorker({ ...deps, connection: proxy.url, registry: new Registry(), drainMs: 1_000 });
  await waitFor(() => proxy.accepted > 4, { description: 'some attempts to listen' });
  expect(ran).toBe(0);
  await proxy.set({ kind: 'pass' });
  const worker = await starting;
  await waitFor(() => ran === 1, { description: 'the job to run' });
  await worker.close();
});

test('a worker that once cannot take jobs, as on a busy machine, warns nobody, and warns once it cannot again', async () => {
  await using proxy = await startPostgresProxy(url);
  const { lines, logger } = logCollector();
  const behind = await openJobsDatabase(proxy.url);
  await using stack = new AsyncDisposableStack();
  stack.defer(() => behind.close());
  await proxy.set({ kind: 'refuse' });
  const worker = new JobWorker({ ...workerDeps(behind, () => {}), logger }, workerDefaults);
  const failures = () => lines.filter(({ msg }) => String(msg).startsWith('taking jobs from the queue'));
  await waitFor(() => failures().length === 1, { description: 'the first failure' });
  expect(failures()).toMatchObject([{ level: 20 }]);
  worker.wake();
  await waitFor(() => failures().length === 2, { description: 'the second' });
  expect(failures()[1]).toMatchObject({ level: 40, failures: 2 });
  await proxy.set({ kind: 'pass' });
  worker.wake();
  await waitFor(() => failures().length === 3, { description: 'success' });
  expect(failures()[2]!.msg).toBe('taking jobs from the queue works again');
  await worker.close(1_000);
});
