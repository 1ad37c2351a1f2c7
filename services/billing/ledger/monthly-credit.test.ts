import { expect, test } from 'vitest';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import {
  as,
  operator,
  person,
  service,
  sound,
  startTestBilling,
  toNextMonth,
  usageEvent,
} from '../fixtures/test-billing.ts';

const usd = 1_000_000_000n;

test('what a plan is changed to include pays for the next call, even if that is charged in the next month, and is shown at once', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const [calling, charged, looking] = [person(), person(), person()];
  const include = (credit: bigint) => {
    const included = { monthlyCreditNanoUsd: credit * usd };
    return billing.putPlan({ plan: { code: 'developer', name: 'Developer', paygEnabled: true, included } }, operator);
  };
  const charge = async ({ tenantId, userId }: typeof calling, costNanoUsd: bigint, atMs: number) => {
    await billing.charge({ events: [usageEvent({ tenantId, userId, costNanoUsd, atMs })] }, service);
  };
  const now = () => deps.databaseNow(deps.database.pool);
  await include(1n);
  await toNextMonth(started, -60_000);
  for (const owner of [calling, charged, looking]) await charge(owner, usd, await now());

  await include(3n);
  const calledMs = await now();
  const { tenantId, userId } = calling;
  const demands = [{ kind: BudgetKind.ORGANIZATION, leaseId: uuidv7() }];
  await billing.lease({ holderId: uuidv7(), tenantId, userId, costMaxNanoUsd: 1n, demands }, service);
  await charge(charged, 2n * usd, calledMs);
  expect((await billing.getWallet({}, as(looking))).wallet!.balanceNanoUsd).toBe(2n * usd);
  expect((await billing.getAccount({ tenantId: looking.tenantId }, operator)).wallet!.balanceNanoUsd).toBe(2n * usd);

  await toNextMonth(started, 1_000);
  await charge(calling, 2n * usd, calledMs);
  for (const owner of [calling, charged]) {
    const { invoices } = await billing.listInvoices({}, as(owner));
    expect(invoices).toMatchObject([{ creditsNanoUsd: 3n * usd, totalNanoUsd: 0n }]);
  }
  await sound(started);
});
