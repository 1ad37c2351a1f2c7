import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { type LeaseRequest, LeaseRequestSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { startTestBilling } from '../fixtures/test-billing.ts';
import { createRoomBatches } from './room-batches.ts';

/** A request for room under a key's cap. */
const asking = (tenantId: string): LeaseRequest =>
  create(LeaseRequestSchema, {
    holderId: uuidv7(),
    tenantId,
    userId: uuidv7(),
    apiKeyId: uuidv7(),
    costMaxNanoUsd: 5n,
    demands: [{ kind: BudgetKind.API_KEY, leaseId: uuidv7(), limitNanoUsd: 10n }],
  });

test('of requests that are batched, only the one that fails is refused', async () => {
  await using started = await startTestBilling();
  const rooms = createRoomBatches(started.deps);
  const [first, broken, last] = await Promise.allSettled(
    [uuidv7(), 'no id', uuidv7()].map((tenantId) => rooms.take(asking(tenantId))),
  );
  expect(broken!.status).toBe('rejected');
  for (const one of [first!, last!]) {
    expect(one).toMatchObject({ status: 'fulfilled', value: { taken: { granted: [{ roomNanoUsd: 5n }] } } });
  }
});

test('while the database is unreachable, batched requests are refused at once, after a single query for all', async () => {
  await using started = await startTestBilling();
  let asked = 0;
  const rooms = createRoomBatches({
    database: started.deps.database,
    databaseNow: async () => {
      asked += 1;
      throw gatewayError(ErrorReason.OVERLOADED, 'away');
    },
  });
  const answers = await Promise.allSettled(Array.from({ length: 5 }, () => rooms.take(asking(uuidv7()))));
  const overloaded = { status: 'rejected', reason: { reason: ErrorReason.OVERLOADED } };
  expect(answers).toMatchObject(answers.map(() => overloaded));
  expect(asked).toBe(1);
});
