import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Registry } from 'prom-client';
import { describe, expect, test } from 'vitest';
import {
  LeaseResponseSchema,
  ReleaseHoldResponseSchema,
  SettleResponseSchema,
} from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobsService, type SubmitRequestSchema } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { localClient } from '../../../test/support/local-client.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { HoldingBilling } from '../deps.ts';
import { keptBytesMax, waitingBytesMax, waitingJobsMax } from '../domain/quotas.ts';
import { ownJobsDatabase, queueJobs } from '../fixtures/test-queue.ts';
import { startJobs } from '../start.ts';
import { renewHolds } from '../workers/housekeeping.ts';

const { database, url } = await ownJobsDatabase();

/** A process with Jobs, whose Billing leases as told. */
async function jobsWith(
  lease: HoldingBilling['lease'],
  releaseHold: HoldingBilling['releaseHold'] = async () => ({}) as never,
  settle: HoldingBilling['settle'] = async () => ({}) as never,
) {
  const billing = { lease, settle, releaseHold, voidCharge: async () => ({}) as never };
  const started = await startJobs({
    connection: url,
    billing,
    registry: new Registry(),
    clock: systemClock,
    logger: silentLogger,
  });
  return Object.assign(localClient(JobsService, started.implementation, silentLogger), {
    [Symbol.asyncDispose]: started.close,
  });
}

const leasing = async () => create(LeaseResponseSchema, { leases: [{ id: uuidv7() }] });

const chat: MessageInitShape<typeof SubmitRequestSchema> = {
  operation: Operation.CHAT_COMPLETIONS,
  model: 'a-model',
  body: Buffer.from('{}'),
  contentType: 'application/json',
  costMaxNanoUsd: 1n,
};

const somebody = () => ({ tenantId: uuidv7(), userId: uuidv7() });
const as = (person: ReturnType<typeof somebody>) => ({
  contextValues: callerContext(create(CallerSchema, { kind: CallerKind.SESSION, ...person })),
});

test('a repeat that is not admitted while its submission is under way is answered with the job that this becomes', async () => {
  const caller = as(somebody());
  const submission = { ...chat, idempotencyKey: 'under way' };
  const isAsked = Promise.withResolvers<void>();
  const mayGoOn = Promise.withResolvers<void>();
  await using jobs = await jobsWith(async () => {
    isAsked.resolve();
    await mayGoOn.promise;
    return leasing();
  });
  const submitting = jobs.submit(submission, caller);
  await isAsked.promise;
  const { model: _, costMaxNanoUsd: __, ...repeat } = submission;
  const finding = jobs.findSubmitted(repeat, caller);
  // A look for another one tells that this one could have been over.
  expect((await jobs.findSubmitted({ ...repeat, idempotencyKey: 'another' }, caller)).job).toBeUndefined();
  mayGoOn.resolve();
  const { job } = await submitting;
  expect((await finding).job?.id).toBe(job!.id);
});

/** As if submissions under way had been begun earlier by this; returns how many there are. */
const ageSubmissions = async (seconds: number) => {
  const text = `update submissions_under_way set begun_at = begun_at - $1 * interval '1 second'`;
  return (await database.pool.query(text, [seconds])).rowCount;
};

test("a submission at a slow process that is refused its repeat's room, queued meanwhile, is answered with its job", async () => {
  const caller = as(somebody());
  const submission = { ...chat, idempotencyKey: 'twice' };
  const isAsked = Promise.withResolvers<void>();
  const isQueued = Promise.withResolvers<void>();
  await using one = await jobsWith(leasing);
  await using other = await jobsWith(async () => {
    isAsked.resolve();
    await isQueued.promise;
    throw gatewayError(ErrorReason.CREDIT_BALANCE_EXHAUSTED, 'no credit');
  });
  const slow = other.submit(submission, caller);
  await isAsked.promise;
  await ageSubmissions(5);
  const repeat = await one.submit(submission, caller);
  isQueued.resolve();
  expect(await slow).toMatchObject({ replayed: true, job: { id: repeat.job!.id } });
});

/** A process that holds the only room there is and has not queued its job yet, and two others. */
async function withTheOnlyRoom() {
  await using opened = new AsyncDisposableStack();
  const hasRoom = Promise.withResolvers<void>();
  const mayGoOn = Promise.withResolvers<void>();
  const one = opened.use(
    await jobsWith(async () => {
      hasRoom.resolve();
      await mayGoOn.promise;
      return leasing();
    }),
  );
  const refused = () => Promise.reject(gatewayError(ErrorReason.CREDIT_BALANCE_EXHAUSTED, 'no credit'));
  const others = [opened.use(await jobsWith(refused)), opened.use(await jobsWith(refused))] as const;
  const caller = as(somebody());
  const submission = { ...chat, $typeName: undefined, idempotencyKey: 'twice' };
  const first = one.submit(submission, caller);
  await hasRoom.promise;
  const closing = opened.move();
  return {
    ...{ others, caller, submission, first, goOn: mayGoOn.resolve },
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  };
}

test('a repeat at another process waits for the first one, which has the room, and is answered with its job', async () => {
  await using started = await withTheOnlyRoom();
  const { others, caller, submission, first, goOn } = started;
  const { model: _, costMaxNanoUsd: __, ...looked } = submission;
  const answers = Promise.allSettled([others[0].submit(submission, caller), others[1].findSubmitted(looked, caller)]);
  // Looks for others, one after the other, tell that both could have been over.
  for (let time = 0; time < 5; time += 1)
    for (const other of others)
      expect((await other.findSubmitted({ ...looked, idempotencyKey: 'another' }, caller)).job).toBeUndefined();
  goOn();
  const { id } = (await first).job!;
  expect(await answers).toMatchObject([{ value: { replayed: true, job: { id } } }, { value: { job: { id } } }]);
});

test('a submission whose process died holds up its repeats for five seconds, and one that is refused holds up none', async () => {
  await using started = await withTheOnlyRoom();
  const { others, caller, submission, first, goOn } = started;
  const noCredit = { reason: ErrorReason.CREDIT_BALANCE_EXHAUSTED };
  expect(await ageSubmissions(5)).toBe(1);
  for (let time = 0; time < 2; time += 1)
    await expect(others[0].submit(submission, caller)).rejects.toMatchObject(noCredit);
  expect(await ageSubmissions(0)).toBe(0);
  goOn();
  await first;
});

test('Billing is told until it hears it that a submission which got no answer wants no room', async () => {
  const demanded: unknown[] = [];
  const released: unknown[][] = [];
  const lease: HoldingBilling['lease'] = async ({ demands }) => {
    demanded.push(...demands!.map(({ leaseId }) => leaseId));
    throw gatewayError(ErrorReason.OVERLOADED, 'Billing is away');
  };
  const releaseHold: HoldingBilling['releaseHold'] = async ({ leases }) => {
    released.push(leases!.map(({ leaseId }) => leaseId));
    if (released.length < 3) throw gatewayError(ErrorReason.OVERLOADED, 'Billing is away');
    return create(ReleaseHoldResponseSchema);
  };
  await using jobs = await jobsWith(lease, releaseHold);
  await expect(jobs.submit(chat, as(somebody()))).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
  await waitFor(() => released.length === 3, { description: 'Billing to be told again' });
  expect(demanded).toHaveLength(2);
  expect(released).toEqual([demanded, demanded, demanded]);
});

test('new room is held for minutes, in case its job cannot be queued, and then for an hour', async () => {
  const seconds: (bigint | undefined)[] = [];
  const holder = { id: '' };
  const settle: HoldingBilling['settle'] = async ({ holderId, timeToLive }) => {
    if (holderId === holder.id) seconds.push(timeToLive?.seconds);
    return create(SettleResponseSchema);
  };
  const lease: HoldingBilling['lease'] = async ({ holderId, timeToLive }) => {
    holder.id = holderId!;
    seconds.push(timeToLive?.seconds);
    return leasing();
  };
  await using jobs = await jobsWith(lease, undefined, settle);
  await jobs.submit(chat, as(somebody()));
  // Its own housekeeping may be faster.
  await renewHolds({ database, billing: { settle } as HoldingBilling, clock: systemClock });
  await waitFor(() => seconds.length === 2, { description: 'the renewal' });
  expect(seconds).toEqual([300n, 3_600n]);
});

test('a repeat that arrives while the first still asks for room asks for none itself, and is answered with its job', async () => {
  const caller = as(somebody());
  const isAsked = Promise.withResolvers<void>();
  const hasRoom = Promise.withResolvers<void>();
  let asked = 0;
  await using jobs = await jobsWith(async () => {
    asked += 1;
    isAsked.resolve();
    await hasRoom.promise;
    return leasing();
  });
  const submission = { ...chat, idempotencyKey: 'at once' };
  const first = jobs.submit(submission, caller);
  await isAsked.promise;
  const repeat = jobs.submit(submission, caller);
  // By then the repeat has been processed: another submission, which came after it, has asked.
  const other = jobs.submit(chat, caller);
  await waitFor(() => asked >= 2, { description: 'the other submission to ask' });
  hasRoom.resolve();
  expect((await repeat).job!.id).toBe((await first).job!.id);
  expect([(await repeat).replayed, (await other).replayed, asked]).toEqual([true, false, 2]);
});

test.each([
  [
    'that does not hear of its room in time is told to try again, and gives it up',
    ErrorReason.DEADLINE_EXCEEDED,
    ErrorReason.OVERLOADED,
    true,
  ],
  ['that is refused room has none to give up', ErrorReason.SPEND_CAP_EXCEEDED, ErrorReason.SPEND_CAP_EXCEEDED, false],
])('a submission %s', async (_, reason, told, isGivenUp) => {
  const caller = somebody();
  const asked: unknown[] = [];
  const released: unknown[] = [];
  await using jobs = await jobsWith(
    async ({ holderId, demands }) => {
      asked.push({ holderId, leases: demands!.map(({ leaseId }) => ({ leaseId, fencingToken: 1n })) });
      throw gatewayError(reason, 'no room');
    },
    async (request) => {
      released.push(request);
      return {} as never;
    },
  );
  await expect(jobs.submit(chat, as(caller))).rejects.toMatchObject({ reason: told });
  expect(released).toEqual(isGivenUp ? asked : []);
});

test('an Idempotency-Key belongs to the key or session that sent it: for a teammate or another key it stands for a job of their own', async () => {
  await using jobs = await jobsWith(leasing);
  const owner = somebody();
  const mate = { ...owner, userId: uuidv7() };
  const keyOf = (person: ReturnType<typeof somebody>) => ({
    contextValues: callerContext(create(CallerSchema, { kind: CallerKind.API_KEY, ...person, apiKeyId: uuidv7() })),
  });
  const submission = { ...chat, idempotencyKey: 'the same' };
  const callers = [as(owner), as(mate), keyOf(owner), keyOf(owner)];
  const ids = async () => {
    const submitted: string[] = [];
    for (const caller of callers) submitted.push((await jobs.submit(submission, caller)).job!.id);
    return submitted;
  };
  const made = await ids();
  expect(new Set(made).size).toBe(callers.length);
  expect(await ids()).toEqual(made);
  // Nor does deleting one end the others' keys.
  await jobs.cancelJob({ jobId: made[0]! }, as(owner));
  await jobs.deleteJob({ jobId: made[0]! }, as(owner));
  await database.pool.query('delete from jobs where tenant_id = $1', [owner.tenantId]);
  await expect(jobs.submit(submission, as(owner))).rejects.toMatchObject({ reason: ErrorReason.NOT_FOUND });
  expect((await jobs.submit(submission, as(mate))).replayed).toBe(false);
});

describe('an organization', () => {
  const quotas: [what: string, fill: (of: ReturnType<typeof somebody>) => Promise<unknown>, makeRoom: string][] = [
    [
      'as many jobs waiting as it may have',
      (of) => queueJobs(database, waitingJobsMax, of),
      'delete from jobs where id = (select max(id::text)::uuid from jobs where tenant_id = $1)',
    ],
    [
      'as many bytes of requests waiting as it may have',
      async (of) => {
        await queueJobs(database, 4, of);
        const values = [of.tenantId, waitingBytesMax / 4];
        await database.pool.query('update jobs set body_bytes = $2 where tenant_id = $1', values);
      },
      'update jobs set status = 4, expires_at = now() where tenant_id = $1',
    ],
    [
      'as many bytes of results as it may have',
      async (of) => {
        await queueJobs(database, 1, of);
        await database.pool.query(
          `update jobs set status = 3, expires_at = now() + interval '1 day' where tenant_id = $1`,
          [of.tenantId],
        );
        await setKeptBytes(of.tenantId, keptBytesMax);
      },
      'delete from jobs where tenant_id = $1',
    ],
  ];
  test.each(quotas)(
    'with %s is refused more, holds nothing for it, and may submit again once there is room',
    async (_, fill, makeRoom) => {
      const full = somebody();
      await fill(full);
      const released: unknown[] = [];
      await using jobs = await jobsWith(leasing, async ({ leases }) => {
        released.push(...leases!);
        return {} as never;
      });
      await expect(jobs.submit(chat, as(full))).rejects.toMatchObject({
        reason: ErrorReason.RATE_LIMITED,
        details: { retryAfterMs: 30_000 },
      });
      expect(released).toHaveLength(1);
      await jobs.submit(chat, as(somebody()));
      await database.pool.query(makeRoom, [full.tenantId]);
      await jobs.submit(chat, as(full));
    },
  );
});

/** As if its finished jobs had results of this many bytes. */
const setKeptBytes = (tenantId: string, bytes: number) =>
  database.pool.query(
    `with counted as (update jobs set result_bytes = $2 where tenant_id = $1 and status = 3)
      insert into kept_results (tenant_id, bytes) values ($1, $2)`,
    [tenantId, bytes],
  );
