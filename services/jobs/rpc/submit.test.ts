import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { LeaseResponseSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobsService, type SubmitRequestSchema } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { localClient } from '../../../test/support/local-client.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import type { HoldingBilling } from '../deps.ts';
import { silent } from '../fixtures/test-queue.ts';
import { startJobs } from '../start.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database?.drop());

/** A process with Jobs, whose Billing leases as it is told. */
async function jobsWith(lease: HoldingBilling['lease']) {
  const billing = { lease, settle: async () => ({}) as never, releaseHold: async () => ({}) as never };
  const started = await startJobs({
    connection: database.url,
    billing,
    registry: new Registry(),
    clock: systemClock,
    logger: silent,
  });
  return Object.assign(localClient(JobsService, started.implementation, silent), {
    [Symbol.asyncDispose]: started.close,
  });
}

const chat: MessageInitShape<typeof SubmitRequestSchema> = {
  operation: Operation.CHAT_COMPLETIONS,
  endpoint: '/v1/chat/completions',
  model: 'a-model',
  body: Buffer.from('{}'),
  contentType: 'application/json',
  costMaxNanoUsd: 1n,
};

const somebody = () => ({
  contextValues: callerContext(
    create(CallerSchema, { kind: CallerKind.SESSION, tenantId: uuidv7(), userId: uuidv7() }),
  ),
});

test('a repeat at another process that is refused the room of the first, queued meanwhile, is answered with its job', async () => {
  const caller = somebody();
  const submission = { ...chat, idempotencyKey: 'twice' };
  const isAsked = Promise.withResolvers<void>();
  const isQueued = Promise.withResolvers<void>();
  await using one = await jobsWith(async () => create(LeaseResponseSchema, { leases: [{ id: uuidv7() }] }));
  await using other = await jobsWith(async () => {
    isAsked.resolve();
    await isQueued.promise;
    throw gatewayError(ErrorReason.CREDIT_BALANCE_EXHAUSTED, 'no credit');
  });
  const repeat = other.submit(submission, caller);
  await isAsked.promise;
  const first = await one.submit(submission, caller);
  isQueued.resolve();
  expect(await repeat).toMatchObject({ replayed: true, job: { id: first.job!.id } });
});
