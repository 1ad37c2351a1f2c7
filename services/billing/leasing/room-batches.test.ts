import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import { expect, test } from 'vitest';
import { type LeaseRequest, LeaseRequestSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { lockWaiters, onDatabase } from '../../../test/support/people.ts';
import { createTestDatabase } from '../../../test/support/postgres.ts';
import { startPostgresProxy } from '../../../test/support/postgres-proxy.ts';
import { startStopwatch } from '../../../test/support/stopwatch.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { operator, startTestBilling, type TestBilling } from '../fixtures/test-billing.ts';
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

/** Asks for room in what an organization can pay. */
function askingFor({ deps }: TestBilling) {
  const rooms = createRoomBatches(deps);
  return (tenantId: string) => {
    const demands = [{ kind: BudgetKind.ORGANIZATION, leaseId: uuidv7() }];
    return rooms.take(create(LeaseRequestSchema, { holderId: uuidv7(), tenantId, costMaxNanoUsd: 1n, demands }));
  };
}

/** Begins a transaction that holds the accounts of organizations. */
async function lockAccounts(client: pg.Client, tenantIds: readonly string[]): Promise<void> {
  await client.query('begin');
  await client.query('insert into billing.accounts (tenant_id) select unnest($1::uuid[])', [tenantIds]);
}

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

test('while the database does not answer, batched requests are refused together, not each after its own wait for a connection', async () => {
  await using database = await createTestDatabase();
  await using proxy = await startPostgresProxy(database.url);
  await using started = await startTestBilling({ ...database, url: proxy.url });
  const rooms = createRoomBatches(started.deps);
  await proxy.set({ kind: 'blackhole' });
  using watch = startStopwatch();
  const answers = await Promise.allSettled(Array.from({ length: 5 }, () => rooms.take(asking(uuidv7()))));
  expect(answers).toMatchObject(answers.map(() => ({ status: 'rejected' })));
  expect(watch.ms).toBeLessThan(2_000);
  await proxy.set({ kind: 'pass' });
});

test.each([{ paygEnabled: false }, { paygEnabled: true }])(
  'while some accounts are busy, requests of all other organizations are answered, at the start of a month too (PAYG: $paygEnabled)',
  async ({ paygEnabled }) => {
    await using started = await startTestBilling();
    const plan = { code: 'developer', name: 'Developer', paygEnabled, included: { monthlyCreditNanoUsd: 10n } };
    await started.billing.putPlan({ plan }, operator);
    const ask = askingFor(started);
    const busy = [uuidv7(), uuidv7(), uuidv7()];
    await onDatabase(started, async (client) => {
      await lockAccounts(client, busy);
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

/** Organizations without PAYG: each request for room locks their account. */
async function startPrepaid(): Promise<TestBilling> {
  const started = await startTestBilling();
  const plan = { code: 'developer', name: 'Developer', paygEnabled: false, included: { monthlyCreditNanoUsd: 10n } };
  await started.billing.putPlan({ plan }, operator);
  return started;
}

test.each([
  ['the accounts of all others in its batch are locked', Array.from({ length: 63 }, () => uuidv7())],
  // These hold up the others once, not once per batch.
  ['requests for one locked account fill many batches before it', Array(2_000).fill(uuidv7())],
])('an organization is answered before its callers give up, though %s', async (_case, busy: string[]) => {
  await using started = await startPrepaid();
  const ask = askingFor(started);
  await onDatabase(started, async (client) => {
    await lockAccounts(client, [...new Set(busy)]);
    using watch = startStopwatch();
    const delayed = Promise.allSettled(busy.map(ask));
    await ask(uuidv7());
    expect(watch.ms).toBeLessThan(3_000);
    await client.query('rollback');
    await delayed;
  });
});

test('a request is refused as overloaded when its account stays locked for as long as its caller waits', async () => {
  await using started = await startPrepaid();
  const busy = uuidv7();
  await onDatabase(started, async (client) => {
    await lockAccounts(client, [busy]);
    await expect(askingFor(started)(busy)).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
    await client.query('rollback');
  });
});

test('an organization whose account comes free is answered, though others still wait for theirs', async () => {
  await using started = await startPrepaid();
  const ask = askingFor(started);
  const [freed, ...busy] = [uuidv7(), uuidv7(), uuidv7()] as const;
  await onDatabase(started, (client) =>
    onDatabase(started, async (other) => {
      await lockAccounts(client, busy);
      await lockAccounts(other, [freed]);
      let settled = 0;
      const delayed = busy.map((tenantId) => ask(tenantId).finally(() => (settled += 1)));
      const waiting = (count: number) =>
        waitFor(async () => (await lockWaiters(started)) === count, {
          description: `${count} to wait for locks`,
        });
      await waiting(2);
      const answer = ask(freed);
      await waiting(3);
      // As many as wait apart at a time.
      await waiting(2);
      await other.query('rollback');
      await answer;
      expect(settled).toBe(0);
      await client.query('rollback');
      await Promise.all(delayed);
    }),
  );
});
