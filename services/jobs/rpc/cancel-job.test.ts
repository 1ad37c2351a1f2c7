import { create, toBinary } from '@bufbuild/protobuf';
import pg from 'pg';
import { Registry } from 'prom-client';
import { beforeEach, expect, test } from 'vitest';
import { VoidChargeResponseSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import {
  InvokeEndSchema,
  InvokeHeadSchema,
  InvokeResponseSchema,
  JobHoldSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import { publicJobId, uuidv7 } from '#shared/ids.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { localClient } from '../../../test/support/local-client.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { bodyKinds, inRowBytesMax, writeBody } from '../db/bodies.ts';
import type { HoldingBilling } from '../deps.ts';
import { successEventId } from '../domain/success-event.ts';
import { ownJobsDatabase, queueJobs, workerDeps } from '../fixtures/test-queue.ts';
import { startJobs } from '../start.ts';
import { renewHolds, returnHolds } from '../workers/housekeeping.ts';
import { JobWorker, workerDefaults } from '../workers/job-worker.ts';

const { database, url } = await ownJobsDatabase();
beforeEach(async () => {
  voided = null;
  await database.pool.query('delete from jobs');
});

const released: string[] = [];
/** The events whose charges were voided; null: that is not heard either. */
let voided: Set<string> | null = null;
/** A Billing that never hears of returned room. */
const billing: HoldingBilling = {
  lease: () => Promise.reject(new Error('nothing is leased')),
  settle: () => Promise.reject(new Error('nothing is renewed')),
  async voidCharge({ usageEventId }) {
    if (voided === null) throw gatewayError(ErrorReason.OVERLOADED, 'away');
    voided.add(usageEventId!);
    return create(VoidChargeResponseSchema);
  },
  async releaseHold({ holderId }) {
    released.push(holderId!);
    throw gatewayError(ErrorReason.OVERLOADED, 'away');
  },
};

async function startedJobs() {
  const options = { connection: url, billing, registry: new Registry(), clock: systemClock, logger: silentLogger };
  const started = await startJobs(options);
  return Object.assign(localClient(JobsService, started.implementation, silentLogger), {
    [Symbol.asyncDispose]: started.close,
  });
}

type Person = { tenantId: string; userId: string };
const somebody = (tenantId = uuidv7()): Person => ({ tenantId, userId: uuidv7() });
const as = (person: Person) => ({
  contextValues: callerContext(create(CallerSchema, { kind: CallerKind.SESSION, ...person })),
});

/** A waiting job whose room is due for renewal. */
async function waitingJob(of: Person): Promise<string> {
  const [id] = await queueJobs(database, 1, of);
  const hold = create(JobHoldSchema, { holderId: id!, leases: [{ leaseId: uuidv7(), fencingToken: 1n }] });
  await database.pool.query('update jobs set hold = $1, hold_expires_at = now() where id = $2', [
    Buffer.from(toBinary(JobHoldSchema, hold)),
    id,
  ]);
  return id!;
}

const statusOf = async (id: string): Promise<JobStatus> =>
  (await database.pool.query('select status from jobs where id = $1', [id])).rows[0].status;

test('only its user can cancel a job: for others it is not found, goes on, and keeps its room', async () => {
  await using jobs = await startedJobs();
  const owner = somebody();
  const id = await waitingJob(owner);
  for (const other of [somebody(owner.tenantId), { ...owner, tenantId: uuidv7() }, somebody()]) {
    await expect(jobs.cancelJob({ jobId: publicJobId(id) }, as(other))).rejects.toMatchObject({
      reason: ErrorReason.NOT_FOUND,
    });
  }
  expect([await statusOf(id), released.includes(id)]).toEqual([JobStatus.QUEUED, false]);
  await jobs.cancelJob({ jobId: publicJobId(id) }, as(owner));
  expect([await statusOf(id), released.includes(id)]).toEqual([JobStatus.CANCELLED, true]);
});

test('the request of a cancelled job is deleted at once, however large, and of no other job', async () => {
  await using jobs = await startedJobs();
  const owner = somebody();
  const [small, large, other] = await queueJobs(database, 3, owner);
  const body = Buffer.alloc(inRowBytesMax + 1, 'x');
  for (const id of [large!, other!]) await writeBody(database.pool, { ...owner, id }, bodyKinds.request, body);
  for (const id of [small!, large!]) await jobs.cancelJob({ jobId: publicJobId(id) }, as(owner));
  const kept = async (text: string) => (await database.pool.query(text)).rows.map(({ id }) => id);
  expect(await kept('select id from jobs where request is not null')).toEqual([other]);
  expect(await kept('select job_id as id from job_bodies')).toEqual([other]);
});

test('the room of a cancelled job is no longer renewed, and given back later if Billing could not be told', async () => {
  const owner = somebody();
  const [cancelled, waiting] = [await waitingJob(owner), await waitingJob(owner)];
  const jobs = await startedJobs();
  await jobs.cancelJob({ jobId: publicJobId(cancelled) }, as(owner));
  // With its housekeeping, which recorded the renewal it attempted.
  await jobs[Symbol.asyncDispose]();
  await database.pool.query('update jobs set hold_expires_at = now() where hold_expires_at is not null');
  const [renewed, returned]: [string[], string[]] = [[], []];
  const reachable: HoldingBilling = {
    ...billing,
    async settle({ holderId }) {
      renewed.push(holderId!);
      return { leases: [] } as never;
    },
    async releaseHold({ holderId }) {
      returned.push(holderId!);
      return { released: 1 } as never;
    },
  };
  expect(await returnHolds({ database, billing, clock: systemClock, logger: silentLogger })).toBe(0);
  const deps = { database, billing: reachable, clock: systemClock, logger: silentLogger };
  expect([await renewHolds(deps), await returnHolds(deps), await returnHolds(deps)]).toEqual([1, 1, 0]);
  expect({ renewed, returned }).toEqual({ renewed: [waiting], returned: [cancelled] });
});

test('what a lost run of a cancelled job was charged is given back, and before that the job is not deleted', async () => {
  await using jobs = await startedJobs();
  const owner = somebody();
  const [id] = await queueJobs(database, 1, owner);
  await database.pool.query('update jobs set started_at = now(), was_lost = true');
  // Billing is away.
  await jobs.cancelJob({ jobId: publicJobId(id!) }, as(owner));
  const remove = () => jobs.deleteJob({ jobId: publicJobId(id!) }, as(owner));
  await expect(remove()).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED, details: { retryAfterMs: 5_000 } });
  const { rows } = await database.pool.query('select started_at from jobs');
  voided = new Set();
  await remove();
  expect([...voided!]).toEqual([successEventId(id!, rows[0].started_at.getTime())]);
});

/**
 * A connection that holds up whoever stores a result, as a stalled disk would. It can lock the job like somebody who stores a result, or not
 * at all, so that only the locks of its worker count.
 */
async function startedDisk({ locksJob }: { locksJob: boolean }) {
  const sql = new pg.Client({ connectionString: url });
  await sql.connect();
  await sql.query('set search_path = jobs');
  // Foreign keys lock what they refer to.
  if (!locksJob) await sql.query('set session_replication_role = replica');
  const goOn = () => sql.query('rollback');
  return {
    async stall(job: Person & { id: string }): Promise<void> {
      await sql.query('begin');
      await writeBody(sql, job, bodyKinds.result, Buffer.alloc(1));
    },
    /** Whether somebody waits for it. */
    async isAwaited(): Promise<boolean> {
      const waiting = 'select from pg_locks where not granted and transactionid = pg_current_xact_id()::xid';
      return (await sql.query(waiting)).rowCount === 1;
    },
    goOn,
    [Symbol.asyncDispose]: async () => {
      await goOn();
      await sql.end();
    },
  };
}

test('while a large result is being stored its job keeps its lease, and is cancelled at once, however often, without that result, and paid for by nobody', async () => {
  voided = new Set();
  await using jobs = await startedJobs();
  const owner = somebody();
  const [id] = await queueJobs(database, 1, owner);
  await using disk = await startedDisk({ locksJob: false });
  const worker = new JobWorker(
    {
      ...workerDeps(database, () => {}),
      inference: {
        async *invoke() {
          await disk.stall({ ...owner, id: id! });
          yield create(InvokeResponseSchema, {
            head: create(InvokeHeadSchema, { status: 200, contentType: 'application/json' }),
            body: Buffer.alloc(inRowBytesMax + 1, ' '),
            end: create(InvokeEndSchema, { success: true }),
          });
        },
      },
    },
    workerDefaults,
  );
  await waitFor(disk.isAwaited, { description: 'the result to be stored' });
  const lease = async () =>
    (await database.pool.query('select lease_expires_at from jobs where id = $1', [id])).rows[0].lease_expires_at;
  const before: Date = await lease();
  await worker.keepLeases();
  expect((await lease()).getTime()).toBeGreaterThan(before.getTime());
  const cancelled = Promise.all(
    Array.from({ length: 20 }, () => jobs.cancelJob({ jobId: publicJobId(id!) }, as(owner))),
  );
  const statuses = (await cancelled).map(({ job }) => job!.status);
  // Its call may be charged by then, or later.
  const { rows } = await database.pool.query('select started_at from jobs');
  expect([...voided!]).toEqual([successEventId(id!, rows[0].started_at.getTime())]);
  expect(statuses).toEqual(statuses.map(() => JobStatus.CANCELLED));
  expect(await disk.isAwaited()).toBe(true);
  await disk.goOn();
  await worker.close(5_000);
  const stored = await database.pool.query('select from job_bodies where job_id = $1', [id]);
  expect([await statusOf(id!), stored.rowCount]).toEqual([JobStatus.CANCELLED, 0]);
});

test('the room of an ended job that could not be given back before is given back at its deletion', async () => {
  await using jobs = await startedJobs();
  const owner = somebody();
  const [kept, returned] = [await waitingJob(owner), await waitingJob(owner)];
  // Later than the housekeeping gives it back.
  await database.pool.query(
    `update jobs set status = ${JobStatus.CANCELLED}, ended_at = now(), expires_at = now() + interval '1 day',
      hold_expires_at = case when id = $1 then now() + interval '1 hour' end`,
    [kept],
  );
  for (const id of [kept, returned]) await jobs.deleteJob({ jobId: publicJobId(id) }, as(owner));
  expect(released.filter((holderId) => holderId === kept || holderId === returned)).toEqual([kept]);
});

test('deletions of a cancelled job whose result is still being stored wait for it, but nobody else waits for them', async () => {
  await using jobs = await startedJobs();
  const [owner, other] = [somebody(), somebody()];
  const [[id], [othersId]] = [await queueJobs(database, 1, owner), await queueJobs(database, 1, other)];
  await jobs.cancelJob({ jobId: publicJobId(id!) }, as(owner));
  await using disk = await startedDisk({ locksJob: true });
  await disk.stall({ ...owner, id: id! });
  const deletions = Promise.allSettled(
    Array.from({ length: 20 }, () => jobs.deleteJob({ jobId: publicJobId(id!) }, as(owner))),
  );
  await waitFor(disk.isAwaited, { description: 'a deletion to wait' });
  await jobs.getJob({ jobId: publicJobId(othersId!) }, as(other));
  await disk.goOn();
  const reasons = (await deletions).map((one) => (one.status === 'fulfilled' ? 'deleted' : one.reason.reason));
  expect(reasons.toSorted()).toEqual([...Array(19).fill(ErrorReason.NOT_FOUND), 'deleted']);
});

test('what cancelled and failed jobs keep of their metadata counts as results of their organization, until they are deleted', async () => {
  await using jobs = await startedJobs();
  const owner = somebody();
  const kept = async () =>
    (await database.pool.query('select bytes::int from kept_results where tenant_id = $1', [owner.tenantId])).rows[0];
  const [cancelled, failed, plain] = await queueJobs(database, 3, owner);
  await database.pool.query(`update jobs set metadata = jsonb_build_object('note', repeat('n', 500)) where id <> $1`, [
    plain,
  ]);
  for (const id of [cancelled!, plain!]) await jobs.cancelJob({ jobId: publicJobId(id) }, as(owner));
  const bytesEach = '"note": ""'.length + 500;
  expect(await kept()).toEqual({ bytes: bytesEach });
  const worker = new JobWorker(
    {
      ...workerDeps(database, () => {}),
      inference: {
        // biome-ignore lint/correctness/useYield: it fails before its first message
        async *invoke() {
          throw invalidRequest('model', 'No such model.');
        },
      },
    },
    workerDefaults,
  );
  const hasFailed = async () =>
    (await database.pool.query('select from jobs where id = $1 and status = 4', [failed])).rowCount === 1;
  await waitFor(hasFailed, { description: 'the failure' });
  await worker.close(1_000);
  expect(await kept()).toEqual({ bytes: 2 * bytesEach });
  for (const id of [cancelled!, failed!, plain!]) await jobs.deleteJob({ jobId: publicJobId(id) }, as(owner));
  expect(await kept()).toEqual({ bytes: 0 });
});
