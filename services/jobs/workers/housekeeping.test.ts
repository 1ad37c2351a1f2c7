import { create, toBinary } from '@bufbuild/protobuf';
import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt';
import pLimit from 'p-limit';
import { beforeEach, expect, test } from 'vitest';
import { ReleaseHoldResponseSchema, SettleResponseSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import {
  InvokeEndSchema,
  InvokeHeadSchema,
  InvokeResponseSchema,
  JobHoldSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { publicJobId, uuidv7 } from '#shared/ids.ts';
import { createTestDatabase, rowsOf } from '../../../test/support/postgres.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { inRowBytesMax, largeBodiesAtOnce } from '../db/bodies.ts';
import { jobsRead, openJobsDatabase, ownJobsDatabase, queueJobs, workerDeps } from '../fixtures/test-queue.ts';
import { readJob } from '../rpc/get-job.ts';
import { removeExpired, renewHolds, returnHolds, startHousekeeping } from './housekeeping.ts';
import { JobWorker, type JobWorkerDeps, workerDefaults } from './job-worker.ts';

const { database } = await ownJobsDatabase();
const largeReads = pLimit(largeBodiesAtOnce);
beforeEach(() => database.pool.query('delete from jobs'));

const later = (ms: number) => ({ now: () => Date.now() + ms, monotonic: () => performance.now() + ms });
const dayMs = 86_400_000;
const tenant = { tenantId: uuidv7(), userId: uuidv7() };

const count = async (table: 'jobs' | 'job_bodies'): Promise<number> =>
  (await database.pool.query(`select count(*)::int as count from ${table}`)).rows[0].count;

/** How many bytes of results the organization has, according to its counter. */
const keptBytes = async (): Promise<number> =>
  Number(
    (await database.pool.query('select bytes from kept_results where tenant_id = $1', [tenant.tenantId])).rows[0].bytes,
  );

/** Answers each job with this many bytes. */
const answering = (bytes: number): JobWorkerDeps => ({
  ...workerDeps(database, () => {}),
  inference: {
    async *invoke() {
      yield create(InvokeResponseSchema, {
        head: create(InvokeHeadSchema, { status: 200, contentType: 'audio/wav' }),
        body: Buffer.alloc(bytes, 'a'),
        end: create(InvokeEndSchema, { success: true }),
      });
    },
  },
});

/** The id of a job that ended with this many bytes; `before` is run on it first. */
async function endWith(bytes: number, before = 'select'): Promise<string> {
  const [id] = await queueJobs(database, 1, tenant);
  await database.pool.query(before);
  const worker = new JobWorker(answering(bytes), workerDefaults);
  await waitFor(
    async () => (await database.pool.query('select 1 from jobs where id = $1 and status = 3', [id])).rowCount === 1,
    { description: 'the end of the job', timeoutMs: 20_000 },
  );
  await worker.close(1_000);
  return id!;
}

test('a result is complete for 24 hours, in the row of its job or in parts, and then removed completely', async () => {
  const largeBytes = 3 * 1024 * 1024 + 1;
  const sizes = [inRowBytesMax, inRowBytesMax + 1, largeBytes];
  const ids: string[] = [];
  for (const size of sizes) ids.push(await endWith(size));
  // One part of the second, four of the third.
  expect(await count('job_bodies')).toBe(5);
  expect(await keptBytes()).toBe(sizes.reduce((sum, size) => sum + size));

  const almost = later(dayMs - 60_000);
  expect(await removeExpired({ database, clock: almost })).toBe(0);
  for (const [index, id] of ids.entries()) {
    const { result } = await readJob({ database, largeReads, clock: almost }, { ...tenant, id });
    expect(result?.body.byteLength).toBe(sizes[index]);
  }

  const [waiting] = await queueJobs(database, 1, tenant);
  const over = later(dayMs + 1_000);
  // Nobody sees it any more, whenever it is removed.
  await expect(readJob({ database, largeReads, clock: over }, { ...tenant, id: ids[2]! })).rejects.toThrow();
  expect(await removeExpired({ database, clock: over })).toBe(3);
  expect(await count('job_bodies')).toBe(0);
  expect(await keptBytes()).toBe(0);
  // A job that has not ended does not expire.
  expect((await readJob({ database, largeReads, clock: over }, { ...tenant, id: waiting! })).id).toBe(
    publicJobId(waiting!),
  );
});

test('the room of a job that has ended is no longer renewed', async () => {
  const id = await endWith(1, `update jobs set hold_expires_at = now()`);
  const billing = { settle: () => Promise.reject(new Error('nothing is to be renewed')) } as never;
  expect(await renewHolds({ database, billing, clock: later(0) })).toBe(0);
  expect((await readJob({ database, largeReads, clock: later(0) }, { ...tenant, id })).result?.body.byteLength).toBe(1);
});

test('the room of a waiting job is renewed once ten minutes of its hour are over, so that it outlasts an outage of Billing', async () => {
  await queueJobs(database, 1, tenant);
  await database.pool.query(`update jobs set hold_expires_at = now() + interval '1 hour'`);
  const billing = { settle: async () => create(SettleResponseSchema) } as never;
  const renewedAfter = (minutes: number) => renewHolds({ database, billing, clock: later(minutes * 60_000) });
  expect([await renewedAfter(9), await renewedAfter(11), await renewedAfter(20)]).toEqual([0, 1, 0]);
  // Billing ends room that was taken before the database's clock was set back in an hour, too.
  expect([await renewedAfter(-600), await renewedAfter(-600)]).toEqual([1, 0]);
});

test('one round renews the room of all waiting jobs, however many', async () => {
  await queueJobs(database, 201, tenant);
  await database.pool.query('update jobs set hold_expires_at = now()');
  const billing = { settle: async () => create(SettleResponseSchema) } as never;
  expect(await renewHolds({ database, billing, clock: later(0) })).toBe(201);
});

test('a process that stops renews and returns no more than the hundred under way; the next one does the rest', async () => {
  const ids = await queueJobs(database, 201, tenant);
  await database.pool.query('update jobs set hold_expires_at = now()');
  let stopping = new AbortController();
  const settle = async () => {
    stopping.abort();
    return create(SettleResponseSchema);
  };
  const renewing = { database, billing: { settle } as never, clock: later(0) };
  expect(await renewHolds(renewing, stopping.signal)).toBe(100);
  expect(await renewHolds(renewing)).toBe(101);

  for (const id of ids) {
    const hold = create(JobHoldSchema, { holderId: id, leases: [{ leaseId: uuidv7(), fencingToken: 1n }] });
    await database.pool.query(
      `update jobs set status = 4, ended_at = now(), expires_at = now() + interval '1 day', hold = $1, hold_expires_at = now() where id = $2`,
      [Buffer.from(toBinary(JobHoldSchema, hold)), id],
    );
  }
  stopping = new AbortController();
  const releaseHold = async () => {
    stopping.abort();
    return create(ReleaseHoldResponseSchema);
  };
  const returning = { database, billing: { releaseHold } as never, clock: later(0), logger: silentLogger };
  expect(await returnHolds(returning, stopping.signal)).toBe(100);
  expect(await returnHolds(returning)).toBe(101);
});

test('room whose renewal failed is renewed in the next round, as new room lapses in minutes, and holds up no other', async () => {
  await queueJobs(database, 101, tenant);
  await database.pool.query(`update jobs set hold_expires_at = now() + interval '5 minutes'`);
  let failing = 0;
  const settle = async () => {
    if (failing > 0 && failing--) throw new Error('away');
    return create(SettleResponseSchema);
  };
  const round = (failures: number) => {
    failing = failures;
    return renewHolds({ database, billing: { settle } as never, clock: later(0) });
  };
  // Of the first hundred one fails; the last job is not reached.
  await expect(round(1)).rejects.toThrow('away');
  expect([await round(0), await round(0)]).toEqual([2, 0]);

  await database.pool.query('update jobs set hold_expires_at = now()');
  await expect(round(100)).rejects.toThrow('away');
  const lapsed = async () => (await database.pool.query('select from jobs where hold_expires_at <= now()')).rowCount;
  expect(await lapsed()).toBe(1);
  await expect(round(100)).rejects.toThrow('away');
  expect(await lapsed()).toBe(0);
});

test('room whose budget was busy, so that it is held only until when it was, is renewed in the next round', async () => {
  const [waiting] = await queueJobs(database, 1, tenant);
  await database.pool.query(`update jobs set hold_expires_at = now() + interval '5 minutes'`);
  const round = async (minutesLeft: number, resetsAt = timestampFromMs(Date.now() + dayMs)) => {
    const expiresAt = timestampFromMs(Date.now() + minutesLeft * 60_000);
    const lease = { timeToLive: durationFromMs(minutesLeft * 60_000), expiresAt, resetsAt };
    const settle = async () => create(SettleResponseSchema, { leases: [{ state: LeaseState.HELD, lease }] });
    return renewHolds({ database, billing: { settle } as never, clock: later(0) });
  };
  expect([await round(4), await round(3), await round(60), await round(60)]).toEqual([0, 0, 1, 0]);
  // A budget's room ends with its period, and is then leased anew.
  await database.pool.query('update jobs set hold_expires_at = now() where id = $1', [waiting]);
  expect([await round(2, timestampFromMs(Date.now())), await round(2)]).toEqual([1, 0]);
});

test('the room of a job that failed while Billing was away is given back once it can be told, and no other', async () => {
  const [failing, waiting] = await queueJobs(database, 2, tenant);
  for (const id of [failing, waiting]) {
    const hold = create(JobHoldSchema, { holderId: id!, leases: [{ leaseId: uuidv7(), fencingToken: 1n }] });
    const bytes = Buffer.from(toBinary(JobHoldSchema, hold));
    await database.pool.query('update jobs set hold = $1, hold_expires_at = now() where id = $2', [bytes, id]);
  }
  await database.pool.query(`update jobs set available_at = now() + interval '1 minute' where id = $1`, [waiting]);
  const deps = workerDeps(database, () => Promise.reject(gatewayError(ErrorReason.INVALID_REQUEST, 'refused')));
  const settle = async () => create(SettleResponseSchema, { leases: [{ state: LeaseState.HELD }] });
  const worker = new JobWorker({ ...deps, billing: { ...deps.billing, settle } }, workerDefaults);
  await waitFor(async () => (await database.pool.query('select from jobs where status = 4')).rowCount === 1, {
    description: 'the failure of the job',
  });
  await worker.close(1_000);
  const returned: unknown[] = [];
  const releaseHold = async ({ holderId }: { holderId?: string }) => {
    returned.push(holderId);
    return create(ReleaseHoldResponseSchema);
  };
  const clock = later(0);
  expect(await returnHolds({ ...deps, clock })).toBe(0);
  expect(await returnHolds({ ...deps, billing: { ...deps.billing, releaseHold }, clock })).toBe(1);
  expect(returned).toEqual([failing]);
});

test('room that Billing refuses to take back holds up no other', async () => {
  const ids = await queueJobs(database, 301, tenant);
  for (const [place, id] of ids.entries()) {
    const hold = create(JobHoldSchema, { holderId: id, leases: [{ leaseId: uuidv7(), fencingToken: 1n }] });
    await database.pool.query(
      `update jobs set status = 4, ended_at = now(), expires_at = now() + interval '1 day', hold = $1, hold_expires_at = now() - $2 * interval '1 second' where id = $3`,
      [Buffer.from(toBinary(JobHoldSchema, hold)), 1_000 - place, id],
    );
  }
  const refused = new Set<string | undefined>(ids.slice(0, 100));
  let asked = 0;
  const releaseHold = async ({ holderId }: { holderId?: string }) => {
    asked += 1;
    if (refused.has(holderId)) throw new Error('refused');
    return create(ReleaseHoldResponseSchema);
  };
  const deps = workerDeps(database, () => {});
  const round = () => returnHolds({ ...deps, billing: { ...deps.billing, releaseHold } });
  // While Billing answers nobody, a round asks it only once for each of the first hundred.
  expect([await round(), asked]).toEqual([0, 100]);
  expect([await round(), await round()]).toEqual([201, 0]);
  refused.clear();
  expect(await round()).toBe(100);
});

test('room is renewed while expired jobs cannot be removed', async () => {
  await using made = await createTestDatabase();
  const own = await openJobsDatabase(made.url);
  await queueJobs(own, 1, tenant);
  await own.pool.query('update jobs set hold_expires_at = now()');
  await rowsOf(made.url, 'revoke delete on jobs.jobs from modelgateway_app');
  await expect(removeExpired({ database: own, clock: later(0) })).rejects.toThrow('permission denied');
  const housekeeping = startHousekeeping(workerDeps(own, () => {}));
  const isRenewed = async () => (await own.pool.query('select from jobs where hold_expires_at > now()')).rowCount === 1;
  await waitFor(isRenewed, { description: 'the renewal' });
  await housekeeping.close();
  await own.close();
});

test('the Idempotency-Key of a deleted job is forgotten after 24 hours, and not before', async () => {
  await database.pool.query(`insert into deleted_job_keys values ($1, $2, 'once', '', now())`, [
    tenant.tenantId,
    tenant.userId,
  ]);
  const kept = async () => (await database.pool.query('select 1 from deleted_job_keys')).rowCount;
  await removeExpired({ database, clock: later(dayMs - 60_000) });
  expect(await kept()).toBe(1);
  await removeExpired({ database, clock: later(dayMs + 1_000) });
  expect(await kept()).toBe(0);
});

test('a submission of a process that died is forgotten once nobody waits for it, and not before', async () => {
  await database.pool.query(`insert into submissions_under_way values ($1, $2, 'once', $3, now())`, [
    tenant.tenantId,
    tenant.userId,
    uuidv7(),
  ]);
  const kept = async () => (await database.pool.query('select from submissions_under_way')).rowCount;
  await removeExpired({ database, clock: later(0) });
  expect(await kept()).toBe(1);
  await removeExpired({ database, clock: later(6_000) });
  expect(await kept()).toBe(0);
});

test('one round removes all expired jobs, however many', async () => {
  await queueJobs(database, 1_201, tenant);
  await database.pool.query(
    'update jobs set status = 4, ended_at = now(), expires_at = now() - random() * interval $$1 day$$',
  );
  expect(await removeExpired({ database, clock: later(0) })).toBe(1_201);
  expect(await count('jobs')).toBe(0);
});

test('no statement removes more results than it can in its time, and a round removes all of them', async () => {
  const ids = await queueJobs(database, 6, tenant);
  for (const [place, mebibytes] of [60, 60, 60, 256, 1, 1].entries()) {
    await database.pool.query(
      `update jobs set status = 3, ended_at = now(), expires_at = now() + $2 * interval '1 second', result_bytes = $3 where id = $1`,
      [ids[place], place, mebibytes * 1024 * 1024],
    );
  }
  const removed: (number | null)[] = [];
  const query: typeof database.query = async (statement) => {
    const result = await database.query<never>(statement);
    if (statement.name === 'jobs-remove-expired') removed.push(result.rowCount);
    return result;
  };
  expect(await removeExpired({ database: { ...database, query }, clock: later(60_000) })).toBe(6);
  expect(removed).toEqual([2, 1, 1, 2, 0]);
});

test('a round reads hardly any of the jobs that are not over yet, nor of those whose room is held for long, nor of the keys kept', async () => {
  await using made = await createTestDatabase();
  const filling = await openJobsDatabase(made.url);
  await queueJobs(filling, 10_000, tenant);
  await filling.pool.query(`
    update jobs set hold_expires_at = now() + interval '1 hour';
    update jobs set status = 3, expires_at = now() + interval '1 day', hold_expires_at = null
      where id in (select id from jobs limit 5000);
    update jobs set expires_at = now() where id in (select id from jobs where status = 3 limit 3);
    insert into deleted_job_keys select tenant_id, subject_id, id::text, '', now() from jobs`);
  await filling.pool.query('analyze');
  await filling.close();
  const before = await jobsRead(made.url);

  const keeping = await openJobsDatabase(made.url);
  const deps = { ...workerDeps(keeping, () => {}), clock: later(0) };
  expect(await removeExpired(deps)).toBe(3);
  expect(await renewHolds(deps)).toBe(0);
  await keeping.close();
  expect((await jobsRead(made.url)) - before).toBeLessThan(100);
});
