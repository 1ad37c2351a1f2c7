import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { expect, test } from 'vitest';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
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
import { expireCredit } from './expire-credit.ts';
import { grantMonthlyCredit } from './grant-monthly-credit.ts';

const usd = 1_000_000_000n;
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

test('credit expires at its time, however many workers there are, and what was spent before is not taken twice', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const owner = person();
  const { tenantId } = owner;
  const nowMs = await deps.databaseNow(deps.database.pool);
  const expiresAt = { seconds: BigInt(Math.floor(nowMs / 1000) + 86_400), nanos: 0 };
  await billing.grantCredit(
    { requestId: uuidv7(), tenantId, source: LotSource.PROMOTION, amountNanoUsd: 10n * usd, expiresAt },
    operator,
  );
  await billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: 4n * usd })] }, service);
  started.travel(dayMs + 1_000);
  // Before any worker has run, the rest is neither shown nor spent.
  expect((await billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd).toBe(0n);
  const atMs = nowMs + dayMs + 1_000;
  await billing.charge({ events: [usageEvent({ tenantId, atMs, costNanoUsd: 1n * usd })] }, service);
  expect((await billing.getPaygSpendCap({}, as(owner))).budget!.spentNanoUsd).toBe(1n * usd);
  const counts = await Promise.all(Array.from({ length: 4 }, () => expireCredit(deps)));
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(1);
  const { transactions } = await billing.listTransactions({ type: TransactionType.EXPIRY }, as(owner));
  expect(transactions).toMatchObject([{ amountNanoUsd: -6n * usd, balanceAfterNanoUsd: 0n }]);
  await sound(started);
});

test('a call is paid from the credit and commitment of its own time, even if they have ended or been written off before it is charged', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const owner = person();
  const { tenantId } = owner;
  await billing.putPlan({ plan: { code: 'prepaid', name: 'Prepaid', paygEnabled: false } }, operator);
  await billing.assignPlan({ tenantId, planCode: 'prepaid' }, operator);
  const nowMs = Math.floor((await deps.databaseNow(deps.database.pool)) / 1_000) * 1_000;
  const endsAt = timestampFromMs(nowMs + dayMs);
  const credit = { requestId: uuidv7(), tenantId, source: LotSource.PROMOTION, amountNanoUsd: 10n * usd };
  await billing.grantCredit({ ...credit, expiresAt: endsAt }, operator);
  const period = { periodStart: timestampFromMs(nowMs - 1_000), periodEnd: endsAt };
  await billing.createCommitment({ requestId: uuidv7(), tenantId, amountNanoUsd: 5n * usd, ...period }, operator);
  const owed = async (): Promise<bigint> => {
    const { invoices } = await billing.listInvoices({}, as(owner));
    return invoices.reduce((sum, { totalNanoUsd }) => sum + totalNanoUsd, 0n);
  };
  const charge = async (costNanoUsd: bigint, atMs: number): Promise<void> => {
    await billing.charge({ events: [usageEvent({ tenantId, costNanoUsd, atMs })] }, service);
    await sound(started);
  };
  const inTimeMs = nowMs + dayMs - 1;
  started.travel(dayMs + hourMs);
  await charge(3n * usd, inTimeMs);
  expect(await owed()).toBe(0n);
  expect(await expireCredit(deps)).toBe(2);
  const { transactions } = await billing.listTransactions({ type: TransactionType.EXPIRY }, as(owner));
  expect(transactions.map(({ amountNanoUsd }) => amountNanoUsd).toSorted()).toEqual([-10n * usd, -2n * usd]);
  // The commitment's last 2 USD first, then from the credit.
  await charge(4n * usd, inTimeMs);
  const { commitments } = await billing.listCommitments({ tenantId }, operator);
  expect(commitments).toMatchObject([{ consumedNanoUsd: 5n * usd, remainingNanoUsd: 0n }]);
  expect(await owed()).toBe(0n);
  await charge(1n * usd, inTimeMs + 1);
  expect(await owed()).toBe(1n * usd);
  await charge(9n * usd, inTimeMs);
  expect(await owed()).toBe(2n * usd);
  expect((await billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd).toBe(0n);
});

test('a call or job with a hold of its own is paid from the credit in which the hold was made, even if it runs after the credit has ended', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const { tenantId, userId } = person();
  await billing.assignPlan({ tenantId, planCode: 'prepaid' }, operator);
  const nowMs = await deps.databaseNow(deps.database.pool);
  const credit = { requestId: uuidv7(), tenantId, source: LotSource.PROMOTION, amountNanoUsd: 10n * usd };
  await billing.grantCredit({ ...credit, expiresAt: timestampFromMs(nowMs + hourMs) }, operator);
  const demand = { kind: BudgetKind.ORGANIZATION, leaseId: uuidv7() };
  const asked = { holderId: uuidv7(), tenantId, userId, costMaxNanoUsd: 2n * usd, timeToLive: { seconds: 86_400n } };
  await billing.lease({ ...asked, demands: [demand] }, service);
  started.travel(2 * hourMs);
  await expireCredit(deps);
  const atMs = await deps.databaseNow(deps.database.pool);
  const event = usageEvent({ tenantId, userId, costNanoUsd: 2n * usd, atMs, leaseIds: [demand.leaseId] });
  await billing.charge({ events: [event] }, service);
  const { invoices } = await billing.listInvoices({}, as(person({ tenantId })));
  expect(invoices).toMatchObject([{ creditsNanoUsd: 2n * usd, totalNanoUsd: 0n }]);
  await sound(started);
});

test('a job that nothing limits is also paid from the credit of its submission, even if it runs after that has ended', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const { tenantId, userId } = person();
  const nowMs = await deps.databaseNow(deps.database.pool);
  const credit = { requestId: uuidv7(), tenantId, source: LotSource.PROMOTION, amountNanoUsd: 10n * usd };
  await billing.grantCredit({ ...credit, expiresAt: timestampFromMs(nowMs + hourMs) }, operator);
  const job = usageEvent({ tenantId, userId, costNanoUsd: 2n * usd, atMs: nowMs + 2 * hourMs, jobId: uuidv7() });
  started.travel(2 * hourMs);
  await expireCredit(deps);
  await billing.charge({ events: [job] }, service);
  const { invoices } = await billing.listInvoices({}, as(person({ tenantId })));
  expect(invoices).toMatchObject([{ creditsNanoUsd: 2n * usd, totalNanoUsd: 0n }]);
  await sound(started);
});

test('a commitment pays for calls from its start, and credit can be spent even if a cap is later set below the amount spent', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const owner = person();
  const { tenantId, userId } = owner;
  const ask = (costMaxNanoUsd: bigint) => {
    const demands = [{ kind: BudgetKind.ORGANIZATION, leaseId: uuidv7() }];
    return billing.lease({ holderId: uuidv7(), tenantId, userId, costMaxNanoUsd, demands }, service);
  };
  await billing.charge({ events: [usageEvent({ tenantId, userId, costNanoUsd: 5n * usd })] }, service);
  await billing.setPaygSpendCap({ limitNanoUsd: 2n * usd }, as(owner));
  const nowMs = await deps.databaseNow(deps.database.pool);
  const period = { periodStart: timestampFromMs(nowMs + hourMs), periodEnd: timestampFromMs(nowMs + 100 * dayMs) };
  await billing.createCommitment({ requestId: uuidv7(), tenantId, amountNanoUsd: 9n * usd, ...period }, operator);
  await expect(ask(usd)).rejects.toMatchObject({ reason: ErrorReason.PAYG_CAP_EXCEEDED });
  const credit = { requestId: uuidv7(), tenantId, source: LotSource.PURCHASE, amountNanoUsd: usd };
  await billing.grantCredit(credit, operator);
  expect((await ask(usd)).leases).toMatchObject([{ heldNanoUsd: usd }]);
  await expect(ask(usd)).rejects.toMatchObject({ reason: ErrorReason.PAYG_CAP_EXCEEDED });
  started.travel(hourMs);
  expect((await ask(9n * usd)).leases).toMatchObject([{ heldNanoUsd: 9n * usd }]);
});

test("credit that ends for many organizations at once, such as a month's, is written off in one round, unless its process stops", async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const plan = { code: 'developer', name: 'Developer', paygEnabled: true, included: { monthlyCreditNanoUsd: usd } };
  await billing.putPlan({ plan }, operator);
  const events = Array.from({ length: 501 }, () => usageEvent({ tenantId: uuidv7(), costNanoUsd: 1_000n }));
  await billing.charge({ events }, service);
  await toNextMonth(started, 1_000);
  expect(await expireCredit({ ...deps, signal: AbortSignal.abort() })).toBe(0);
  expect(await expireCredit(deps)).toBe(events.length);
  await sound(started);
});

test("a plan's credit is given once a month and ends with it", async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const owner = person();
  const { tenantId } = owner;
  const plan = { code: 'team', name: 'Team', paygEnabled: true, included: { monthlyCreditNanoUsd: 5n * usd } };
  await billing.putPlan({ plan }, operator);
  await billing.assignPlan({ tenantId, planCode: 'team' }, operator);
  const grant = async () => {
    const counts = await Promise.all(Array.from({ length: 4 }, () => grantMonthlyCredit(deps)));
    return counts.reduce((sum, count) => sum + count, 0);
  };
  expect(await grant()).toBe(0);
  await toNextMonth(started, 1_000);
  expect([await grant(), await grant()]).toEqual([1, 0]);
  expect((await billing.getWallet({}, as(owner))).wallet!.lots).toHaveLength(1);
  await sound(started);
});

test('what a plan includes beyond the previous one is given mid-month, once, and a lower plan takes nothing back', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const owner = person();
  const { tenantId } = owner;
  const put = (code: string, credit: bigint) => {
    const included = { monthlyCreditNanoUsd: credit * usd };
    return billing.putPlan({ plan: { code, name: code, paygEnabled: true, included } }, operator);
  };
  await put('small', 5n);
  await put('large', 20n);
  const assign = (planCode: string) => billing.assignPlan({ tenantId, planCode }, operator);
  const balance = async () => (await billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd / usd;
  const givenByWorkers = async () => {
    const counts = await Promise.all(Array.from({ length: 4 }, () => grantMonthlyCredit(deps)));
    return counts.reduce((sum, count) => sum + count, 0);
  };
  await assign('small');
  expect(await balance()).toBe(5n);
  await billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: 2n * usd })] }, service);
  await assign('large');
  expect(await balance()).toBe(18n);
  await assign('small');
  await assign('large');
  expect([await balance(), await givenByWorkers()]).toEqual([18n, 0]);
  await put('large', 30n);
  expect([await givenByWorkers(), await givenByWorkers()]).toEqual([1, 0]);
  await put('large', 10n);
  expect([await givenByWorkers(), await balance()]).toEqual([0, 28n]);
  const { transactions } = await billing.listTransactions({ type: TransactionType.GRANT }, as(owner));
  expect(transactions.map(({ amountNanoUsd }) => amountNanoUsd / usd)).toEqual([10n, 15n, 5n]);
  await toNextMonth(started, 1_000);
  expect([await balance(), await givenByWorkers()]).toEqual([10n, 0]);
  await sound(started);
});

test('the balance after redeeming a coupon is what the wallet shows, even with expired credit that is not yet written off', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const owner = person();
  const expiresAt = timestampFromMs((await deps.databaseNow(deps.database.pool)) + hourMs);
  const grant = { requestId: uuidv7(), tenantId: owner.tenantId, amountNanoUsd: 9n * usd, expiresAt };
  await billing.grantCredit({ ...grant, source: LotSource.PROMOTION }, operator);
  started.travel(2 * hourMs);
  const { code } = (await billing.createCoupon({ amountNanoUsd: 2n * usd }, operator)).coupon!;
  expect((await billing.redeemCoupon({ code }, as(owner))).balanceNanoUsd).toBe(2n * usd);
  expect((await billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd).toBe(2n * usd);
});

test("a plan's credit is there for the first call of an organization or month, and for whoever looks first, without any worker", async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const [charged, prepaid, looking] = [person(), person(), person()];
  const plan = { name: 'Developer', included: { monthlyCreditNanoUsd: 5n * usd } };
  await billing.putPlan({ plan: { ...plan, code: 'developer', paygEnabled: true } }, operator);
  await billing.putPlan({ plan: { ...plan, code: 'prepaid', paygEnabled: false } }, operator);
  await billing.assignPlan({ tenantId: prepaid.tenantId, planCode: 'prepaid' }, operator);
  const walletOf = async (owner: typeof charged) => (await billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd;
  for (const round of ['the first month of all', 'another']) {
    const { tenantId } = charged;
    const atMs = await deps.databaseNow(deps.database.pool);
    await billing.charge({ events: [usageEvent({ tenantId, atMs, costNanoUsd: 2n * usd })] }, service);
    expect((await billing.getPaygSpendCap({}, as(charged))).budget!.spentNanoUsd, round).toBe(0n);
    expect(await walletOf(charged), round).toBe(3n * usd);
    const demand = { kind: BudgetKind.ORGANIZATION, leaseId: uuidv7() };
    const ids = { holderId: uuidv7(), tenantId: prepaid.tenantId, userId: prepaid.userId };
    await billing.lease({ ...ids, costMaxNanoUsd: 5n * usd, demands: [demand] }, service);
    await billing.releaseHold(
      { holderId: ids.holderId, leases: [{ leaseId: demand.leaseId, fencingToken: 1n }] },
      service,
    );
    expect(await walletOf(looking), round).toBe(5n * usd);
    // Whoever was given it is not given it again.
    expect(await grantMonthlyCredit(deps), round).toBe(0);
    expect(await walletOf(prepaid), round).toBe(5n * usd);
    await toNextMonth(started, 1_000);
  }
  await sound(started);
});

test("redeeming a coupon first thing in a month reports a balance that includes the plan's credit, as the wallet does", async () => {
  await using started = await startTestBilling();
  const { billing } = started;
  const owner = person();
  const plan = { code: 'developer', name: 'Developer', included: { monthlyCreditNanoUsd: 5n * usd } };
  await billing.putPlan({ plan }, operator);
  for (const balanceNanoUsd of [7n * usd, 9n * usd]) {
    const { code } = (await billing.createCoupon({ amountNanoUsd: 2n * usd }, operator)).coupon!;
    expect((await billing.redeemCoupon({ code }, as(owner))).balanceNanoUsd).toBe(balanceNanoUsd);
    expect((await billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd).toBe(balanceNanoUsd);
    await toNextMonth(started, 1_000);
  }
  await sound(started);
});

test("a plan's credit pays only for the calls of its month: one of the month before that is charged late is not free", async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const owner = person();
  const { tenantId, userId } = owner;
  const plan = { code: 'team', name: 'Team', paygEnabled: true, included: { monthlyCreditNanoUsd: 5n * usd } };
  await billing.putPlan({ plan }, operator);
  await billing.assignPlan({ tenantId, planCode: 'team' }, operator);
  const balance = async () => (await billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd;
  const charge = (costNanoUsd: bigint, atMs: number, leaseIds: string[] = []) =>
    billing.charge({ events: [usageEvent({ tenantId, userId, costNanoUsd, atMs, leaseIds })] }, service);
  await billing.setPaygSpendCap({ limitNanoUsd: 100n * usd }, as(owner));
  await charge(5n * usd, await deps.databaseNow(deps.database.pool));
  expect(await balance()).toBe(0n);

  await toNextMonth(started, 1_000);
  const nowMs = await deps.databaseNow(deps.database.pool);
  await charge(2n * usd, nowMs - 2_000);
  expect(await balance()).toBe(5n * usd);
  const { invoices } = await billing.listInvoices({}, as(owner));
  expect(invoices).toMatchObject([{ subtotalNanoUsd: 7n * usd, creditsNanoUsd: 5n * usd, totalNanoUsd: 2n * usd }]);

  // Room was found in this month, while the edge's clock is still in the last.
  const demand = { kind: BudgetKind.ORGANIZATION, leaseId: uuidv7(), sliceNanoUsd: 1n * usd };
  const asked = { holderId: uuidv7(), tenantId, userId, costMaxNanoUsd: 1n * usd, timeToLive: { seconds: 60n } };
  await billing.lease({ ...asked, demands: [demand] }, service);
  await charge(1n * usd, nowMs - 2_000, [demand.leaseId]);
  expect(await balance()).toBe(4n * usd);
  await sound(started);
});

test("a call at the end of a month is paid from that month's credit although the plan is new and the call is charged in the next month", async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const [created, assigned] = [person(), person()];
  const plan = { paygEnabled: true, included: { monthlyCreditNanoUsd: 5n * usd } };
  for (const code of ['developer', 'team']) await billing.putPlan({ plan: { ...plan, code, name: code } }, operator);
  await toNextMonth(started, -2_000);
  const atMs = await deps.databaseNow(deps.database.pool);
  const demands = [{ kind: BudgetKind.ORGANIZATION, leaseId: uuidv7() }];
  const asked = {
    holderId: uuidv7(),
    tenantId: created.tenantId,
    userId: created.userId,
    costMaxNanoUsd: usd,
    demands,
  };
  expect((await billing.lease(asked, service)).leases).toMatchObject([{ unlimited: true }]);
  await billing.assignPlan({ tenantId: assigned.tenantId, planCode: 'team' }, operator);

  await toNextMonth(started, 1_000);
  for (const owner of [created, assigned]) {
    const { tenantId } = owner;
    // Whoever looks now is given the credit of the new month only.
    expect((await billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd).toBe(5n * usd);
    await billing.charge({ events: [usageEvent({ tenantId, atMs, costNanoUsd: 2n * usd })] }, service);
    const { invoices } = await billing.listInvoices({}, as(owner));
    expect(invoices).toMatchObject([{ creditsNanoUsd: 2n * usd, totalNanoUsd: 0n }]);
    expect((await billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd).toBe(5n * usd);
  }
  await sound(started);
});

test("an operator can deduct from a plan's credit for a new month before anyone has used or seen it", async () => {
  await using started = await startTestBilling();
  const { billing } = started;
  const owner = person();
  const { tenantId } = owner;
  const plan = { code: 'developer', name: 'Developer', included: { monthlyCreditNanoUsd: 5n * usd } };
  await billing.putPlan({ plan }, operator);
  const taken = { tenantId, amountNanoUsd: -3n * usd, description: 'Given by mistake' };
  await billing.postAdjustment({ ...taken, requestId: uuidv7() }, operator);
  expect((await billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd).toBe(2n * usd);
  await sound(started);
});
