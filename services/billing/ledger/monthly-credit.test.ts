import { expect, test } from 'vitest';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
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
import { lockAccounts } from './accounts.ts';
import { giveDueCredit } from './monthly-credit.ts';

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

test('many organizations are given credit in as many statements as one, since their calls wait meanwhile', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const included = { monthlyCreditNanoUsd: 5n };
  for (const code of ['developer', 'team', 'prepaid'])
    await billing.putPlan({ plan: { code, name: code, included } }, operator);
  const owners = Array.from({ length: 9 }, () => person());
  for (const { tenantId } of owners.slice(0, 3)) await billing.assignPlan({ tenantId, planCode: 'team' }, operator);
  await billing.putPlan({ plan: { code: 'team', name: 'team', included: { monthlyCreditNanoUsd: 7n } } }, operator);
  await billing.assignPlan({ tenantId: owners[8]!.tenantId, planCode: 'prepaid' }, operator);
  const statements = (given: typeof owners) =>
    sqlTransaction(deps.database, async (sql) => {
      const accounts = await lockAccounts(
        sql,
        given.map(({ tenantId }) => tenantId),
      );
      let count = 0;
      const query: typeof sql.query = (...statement: unknown[]) => {
        count += 1;
        return (sql.query as (...args: unknown[]) => never)(...statement);
      };
      await giveDueCredit({ query: query.bind(sql) }, [...accounts.values()], await deps.databaseNow(sql));
      return count;
    });
  const forOne = await statements(owners.slice(3, 4));
  expect(await statements(owners)).toBe(forOne);
  expect(await statements(owners)).toBe(0);
  const balances = owners.map(async (owner) => (await billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd);
  expect(await Promise.all(balances)).toEqual([7n, 7n, 7n, 5n, 5n, 5n, 5n, 5n, 5n]);
  await sound(started);
});
