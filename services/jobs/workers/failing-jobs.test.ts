import { create, fromBinary } from '@bufbuild/protobuf';
import { beforeEach, describe, expect, test } from 'vitest';
import { ErrorDetailSchema } from '#gen/modelgateway/common/v1/error_pb.ts';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import {
  InvokeEndSchema,
  InvokeHeadSchema,
  InvokeResponseSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { fromErrorDetail } from '#shared/rpc/connect-errors.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { successEventId } from '../domain/success-event.ts';
import { ownJobsDatabase, queueJobs, workerDeps } from '../fixtures/test-queue.ts';
import { JobWorker, type JobWorkerDeps, workerDefaults } from './job-worker.ts';

const { database } = await ownJobsDatabase();
beforeEach(() => database.pool.query('delete from jobs'));

describe('a job whose call cannot be made or breaks off', () => {
  const failed = async (change: (deps: JobWorkerDeps) => JobWorkerDeps, prepare = 'select') => {
    await queueJobs(database, 1, { tenantId: uuidv7(), userId: uuidv7() });
    await database.pool.query(prepare);
    const worker = new JobWorker(change(workerDeps(database, () => {})), workerDefaults);
    const tried = 'select status, attempts, error from jobs where fence > 0 and status <> 2';
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
  ])('fails if a budget refuses it (%d)', async (reason) => {
    const prepare = 'update jobs set cost_max_nano_usd = 1';
    expect(await failed(refusing(reason), prepare)).toEqual({ status: JobStatus.FAILED, attempts: 1, reason });
  });

  test('waits, without using up an attempt, while Billing is unreachable', async () => {
    const prepare = 'update jobs set cost_max_nano_usd = 1';
    const outcome = await failed(refusing(ErrorReason.OVERLOADED), prepare);
    expect(outcome).toEqual({ status: JobStatus.QUEUED, attempts: 0, reason: null });
  });

  test('waits in the same way if it cost nothing at its submission, and its call cannot hear of room', async () => {
    const outcome = await failed((deps) => ({
      ...deps,
      ...workerDeps(database, () => {
        throw gatewayError(ErrorReason.BUDGETS_OUT_OF_REACH, 'away');
      }),
    }));
    expect(outcome).toEqual({ status: JobStatus.QUEUED, attempts: 0, reason: null });
  });

  test('fails if its user is no longer active', async () => {
    const outcome = await failed((deps) => ({
      ...deps,
      auth: { ...deps.auth, getUsers: async () => ({ users: [{ isActive: false }] }) as never },
    }));
    expect(outcome).toEqual({ status: JobStatus.FAILED, attempts: 1, reason: ErrorReason.INVALID_TOKEN });
  });

  test.each([
    ['the end of a stream that failed', create(InvokeEndSchema, { success: false })],
    ['no end', undefined],
  ])('is retried after an answer with %s: half an answer is not a result', async (_, end) => {
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

  test('is cut off at its deadline, and fails: nobody pays for an answer that was complete at that moment', async () => {
    const voided: unknown[] = [];
    const voidCharge: JobWorkerDeps['billing']['voidCharge'] = async ({ usageEventId }) => {
      voided.push(usageEventId);
      return {} as never;
    };
    const outcome = await failed(
      (deps) => ({
        ...deps,
        ...workerDeps(database, async (_request, signal) => {
          await new Promise<void>((resolve) => signal!.addEventListener('abort', () => resolve()));
          throw signal!.reason;
        }),
        billing: { ...deps.billing, voidCharge },
      }),
      `update jobs set deadline_at = now() + interval '300 milliseconds'`,
    );
    expect(outcome).toMatchObject({ status: JobStatus.FAILED, reason: ErrorReason.DEADLINE_EXCEEDED });
    const { rows } = await database.pool.query('select id, started_at from jobs');
    expect(voided).toEqual([successEventId(rows[0].id, rows[0].started_at.getTime())]);
  });

  test('fails at once if the next attempt would come too late', async () => {
    const outcome = await failed(
      (deps) => ({
        ...deps,
        ...workerDeps(database, () => {
          throw gatewayError(ErrorReason.UPSTREAM_ERROR, 'broken');
        }),
      }),
      // The second attempt would come after three quarters of a second.
      `update jobs set deadline_at = now() + interval '500 milliseconds'`,
    );
    expect(outcome).toEqual({ status: JobStatus.FAILED, attempts: 1, reason: ErrorReason.UPSTREAM_ERROR });
  });

  test('fails with what the upstream said, as the direct call does', async () => {
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
