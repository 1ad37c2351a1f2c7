import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { type LeaseRequest, LeaseRequestSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { onDatabase } from '../../../test/support/people.ts';
import { operator, startTestBilling } from '../fixtures/test-billing.ts';
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

test.each([{ paygEnabled: false }, { paygEnabled: true }])(
  'while some accounts are busy, requests of all other organizations are answered, at the start of a month too (PAYG: $paygEnabled)',
  async ({ paygEnabled }) => {
    await using started = await startTestBilling();
    const plan = { code: 'developer', name: 'Developer', paygEnabled, included: { monthlyCreditNanoUsd: 10n } };
    await started.billing.putPlan({ plan }, operator);
    const rooms = createRoomBatches(started.deps);
    const ask = (tenantId: string) => {
      const demands = [{ kind: BudgetKind.ORGANIZATION, leaseId: uuidv7() }];
      return rooms.take(create(LeaseRequestSchema, { holderId: uuidv7(), tenantId, costMaxNanoUsd: 1n, demands }));
    };
    const busy = [uuidv7(), uuidv7(), uuidv7()];
    await onDatabase(started, async (client) => {
      await client.query('begin');
      await client.query('insert into billing.accounts (tenant_id) select unnest($1::uuid[])', [busy]);
      const delayed: Promise<unknown>[] = [];
      for (let count = 0; count < 5; count++) {
        delayed.push(Promise.allSettled(busy.map(ask)));
        await expect(Promise.all([ask(uuidv7()), ask(uuidv7())])).resolves.toHaveLength(2);
      }
      await client.query('rollback');
      await Promise.all([...delayed, ...busy.map(ask)]);
    });
  },
);
