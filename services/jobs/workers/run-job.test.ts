import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import {
  LeaseResponseSchema,
  ReleaseHoldResponseSchema,
  SettleResponseSchema,
} from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { LeaseState } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import {
  CallerConstraintsSchema,
  InvokeEndSchema,
  InvokeResponseSchema,
  JobHoldSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { ErrorReason, type GatewayErrorDetails, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { CallerSchema, Role } from '#shared/rpc/caller.ts';
import { collectGarbage, memoryGrowth } from '../../../test/support/memory.ts';
import type { TakenJob } from '../db/take-jobs.ts';
import { type JobInputs, type RunJobDeps, runJob } from './run-job.ts';

const job: TakenJob = {
  tenantId: uuidv7(),
  id: uuidv7(),
  subjectId: uuidv7(),
  caller: create(CallerSchema),
  operation: Operation.CHAT_COMPLETIONS,
  model: 'a-model',
  contentType: 'application/json',
  request: Buffer.from('{}'),
  requestBytes: 2,
  fence: 1n,
  attempts: 1,
  createdMs: Date.now(),
  startedMs: Date.now(),
  hasStartedBefore: false,
  wasLost: false,
  leftMs: 24 * 3_600_000,
  costMaxNanoUsd: 0n,
  costMinNanoUsd: 0n,
  hold: create(JobHoldSchema),
};
const caller = { role: Role.OWNER, constraints: create(CallerConstraintsSchema), requireScope() {} };

const refused = () => Promise.reject(new Error('nothing is held here'));
const noBilling: RunJobDeps['billing'] = { lease: refused, settle: refused, releaseHold: refused, voidCharge: refused };
/** Runs the job, or one that differs in some fields, with an inference part that answers so. */
const run = (
  invoke: RunJobDeps['inference']['invoke'],
  {
    billing = noBilling,
    faults = { failed() {} },
    body = async () => new Uint8Array(),
    ...fields
  }: Partial<TakenJob & Pick<RunJobDeps, 'billing' | 'faults'> & Pick<JobInputs, 'body'>> = {},
) =>
  runJob(
    { inference: { invoke }, billing, faults, random: () => 0.5 },
    { ...job, ...fields },
    { caller: Promise.resolve(caller), body, saveHold: async () => true },
    new AbortController().signal,
  );
const success = create(InvokeResponseSchema, { end: create(InvokeEndSchema, { success: true }) });

test('a job has six attempts in its 24 hours, and no more', async () => {
  const statusOf = async (fields: Partial<TakenJob>) => {
    const outcome = await run(async function* () {
      yield success;
    }, fields);
    return outcome.kind === 'ended' && outcome.ending.status;
  };
  const { COMPLETED, FAILED } = JobStatus;
  const cases = [{ attempts: 6 }, { attempts: 7 }, { leftMs: 1 }, { leftMs: 0 }];
  expect(await Promise.all(cases.map(statusOf))).toEqual([COMPLETED, FAILED, COMPLETED, FAILED]);
});

test('a job that fails in new room, as its own has lapsed, leaves the new to be given back', async () => {
  const [own, anew] = [uuidv7(), uuidv7()];
  const refusing = () => {
    throw gatewayError(ErrorReason.INVALID_REQUEST, 'no');
  };
  const outcome = await run(refusing, {
    costMaxNanoUsd: 1n,
    hold: create(JobHoldSchema, { leases: [{ leaseId: own, fencingToken: 1n }] }),
    billing: {
      ...noBilling,
      settle: async () => create(SettleResponseSchema, { leases: [{ state: LeaseState.LAPSED }] }),
      releaseHold: async () => create(ReleaseHoldResponseSchema),
      lease: async () => create(LeaseResponseSchema, { leases: [{ id: anew, fencingToken: 2n }] }),
    },
  });
  expect(outcome).toMatchObject({ kind: 'ended', unused: { leases: [{ leaseId: anew, fencingToken: 2n }] } });
});

test.each(['before its call', 'by its call'])(
  'a job that meets a budget of which others hold what is left, %s, waits and loses no attempt; one whose budget is spent fails',
  async (when) => {
    const met = (details: GatewayErrorDetails, waitedMs = 0) => {
      const refusing = () => {
        throw gatewayError(ErrorReason.SPEND_CAP_EXCEEDED, 'no', details);
      };
      const createdMs = job.startedMs - waitedMs;
      if (when === 'by its call') return run(refusing, { createdMs });
      return run(refusing, { createdMs, costMaxNanoUsd: 1n, billing: { ...noBilling, lease: async () => refusing() } });
    };
    for (const [waitedMs, delayMs] of [[10, 1_000] as const, [3_600_000, 30_000] as const]) {
      const waiting = { kind: 'again', delayMs, countsAsAttempt: false };
      expect(await met({ retryAfterMs: 5_000 }, waitedMs)).toEqual(waiting);
    }
    const ending = { status: JobStatus.FAILED };
    expect(await met({ retryAfterMs: 9_000, resetsAtMs: Date.now() + 9_000 })).toMatchObject({ kind: 'ended', ending });
  },
);

test('a job waits for its worker to hear of a model of which the edge that admitted it had just heard; one whose model is gone fails', async () => {
  const met = (waitedMs: number) => {
    const unknown = () => {
      throw gatewayError(ErrorReason.MODEL_NOT_FOUND, 'no');
    };
    return run(unknown, { createdMs: job.startedMs - waitedMs });
  };
  expect(await met(10)).toEqual({ kind: 'again', delayMs: 1_000, countsAsAttempt: false });
  expect(await met(2_000)).toMatchObject({ kind: 'ended', ending: { status: JobStatus.FAILED } });
});

test('whatever keeps a job from running but a decision about its caller is told to operators, since nobody else may hear of it', async () => {
  const told: unknown[] = [];
  const faults = { failed: (error: unknown) => void told.push(error) };
  const keptBy = (error: Error) =>
    run(() => expect.fail('it must not run'), { faults, body: () => Promise.reject(error) });
  const waiting = { kind: 'again', countsAsAttempt: false };
  const denied = Object.assign(new Error('permission denied for table job_bodies'), { code: '42501' });
  expect(await keptBy(denied)).toMatchObject(waiting);
  const unreachable = gatewayError(ErrorReason.OVERLOADED, 'Try again shortly.', { internal: 'connect ECONNREFUSED' });
  expect(await keptBy(unreachable)).toMatchObject(waiting);
  expect(told).toMatchObject([{ reason: ErrorReason.INTERNAL, cause: denied }, unreachable]);
  expect(await keptBy(gatewayError(ErrorReason.TENANT_SUSPENDED, 'no'))).toMatchObject({ kind: 'ended' });
  expect(told).toHaveLength(2);
});

test('what ended long before its 24 hours are over leaves nothing behind that waits for them', async () => {
  const heldAfter = async (runs: number): Promise<number> => {
    for (let count = 0; count < runs; count += 1) {
      const outcome = await run(async function* () {
        yield success;
      });
      expect(outcome).toMatchObject({ kind: 'ended', ending: { status: JobStatus.COMPLETED } });
    }
    // What has been collected is forgotten in a later turn, and then collected itself.
    for (let time = 0; time < 3; time += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      collectGarbage();
    }
    return process.memoryUsage().heapUsed;
  };
  // Files that ran in this process before may still have something compiled or kept, once: what runs leave behind grows each time.
  const held = [await heldAfter(1_000), await heldAfter(5_000), await heldAfter(5_000)];
  expect(Math.min(held[1]! - held[0]!, held[2]! - held[1]!)).toBeLessThan(1_000_000);
});

test('a result that comes in single bytes takes little more memory than one that comes whole', async () => {
  // The last one comes alone, after all others were put together.
  const bytes = 97 * 1_025 + 1;
  const letter = (index: number): number => 97 + (index % 26);
  let outcome: Awaited<ReturnType<typeof run>> | undefined;
  const growth = await memoryGrowth(4_000_000, async () => {
    outcome = await run(async function* () {
      for (let index = 0; index < bytes; index += 1) {
        // So that the memory can be looked at meanwhile.
        if (index % 10_000 === 0) await new Promise((resolve) => setImmediate(resolve));
        yield create(InvokeResponseSchema, { body: Buffer.of(letter(index)) });
      }
      yield success;
    });
  });
  expect(outcome).toMatchObject({
    ending: { status: JobStatus.COMPLETED, body: Buffer.from(Array.from({ length: bytes }, (_, at) => letter(at))) },
  });
  expect(growth).toBeLessThan(4_000_000);
});
