import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { v7 } from 'uuid';
import { expect, test } from 'vitest';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import {
  as,
  operator,
  person,
  service,
  sound,
  startTestBilling,
  type TestBilling,
  toNextMonth,
  usageEvent,
} from '../fixtures/test-billing.ts';
import { expireCredit } from '../workers/expire-credit.ts';

const usd = 1_000_000_000n;
const dayMs = 86_400_000;

test.each([
  { title: "last month's included credit", included: 10n, held: 10n, room: 10n },
  { title: 'the wallet', bought: 10n, held: 8n, room: 2n },
  { title: "last month's included credit, and the wallet for the rest", included: 5n, bought: 5n, held: 8n, room: 7n },
  { title: 'a commitment that goes on', included: 5n, commitment: 5n, held: 4n, room: 6n },
])(
  'a job that has waited since last month takes room only from what will pay for it: $title',
  async ({ included = 0n, bought = 0n, commitment = 0n, held, room }) => {
    await using started = await startTestBilling();
    const { billing, deps } = started;
    const owner = person();
    const { tenantId, userId } = owner;
    const plan = { code: 'prepaid', name: 'Prepaid', included: { monthlyCreditNanoUsd: included * usd } };
    await billing.putPlan({ plan }, operator);
    await toNextMonth(started, -60_000);
    await billing.assignPlan({ tenantId, planCode: 'prepaid' }, operator);
    if (bought > 0n) {
      const credit = { tenantId, source: LotSource.PURCHASE, amountNanoUsd: bought * usd };
      await billing.grantCredit({ ...credit, requestId: uuidv7() }, operator);
    }
    if (commitment > 0n) {
      const nowMs = await deps.databaseNow(deps.database.pool);
      const period = {
        periodStart: timestampFromMs(nowMs - 30 * dayMs),
        periodEnd: timestampFromMs(nowMs + 30 * dayMs),
      };
      const agreed = { requestId: uuidv7(), tenantId, amountNanoUsd: commitment * usd };
      await billing.createCommitment({ ...agreed, ...period }, operator);
    }
    const ask = async (costMaxNanoUsd: bigint, sliceNanoUsd = 0n) => {
      const demands = [{ kind: BudgetKind.ORGANIZATION, leaseId: uuidv7(), sliceNanoUsd }];
      const timeToLive = { seconds: 86_400n };
      await billing.lease({ holderId: uuidv7(), tenantId, userId, costMaxNanoUsd, demands, timeToLive }, service);
      return demands[0]!.leaseId;
    };
    const charge = async (leaseId: string, costNanoUsd: bigint) => {
      const atMs = await deps.databaseNow(deps.database.pool);
      const events = [usageEvent({ tenantId, userId, costNanoUsd, atMs, leaseIds: [leaseId] })];
      await billing.charge({ events }, service);
    };
    const job = await ask(held * usd);

    await toNextMonth(started, 60_000);
    const call = await ask(room * usd - 1n);
    const last = await ask(1n);
    await expect(ask(1n)).rejects.toThrow('is held by requests');
    expect(await expireCredit(deps)).toBe(included > 0n ? 1 : 0);
    await expect(ask(1n)).rejects.toThrow('is held by requests');

    await charge(job, held * usd);
    await charge(call, room * usd - 1n);
    await charge(last, 1n);
    await expect(ask(1n)).rejects.toThrow('no credit left');
    const { invoices } = await billing.listInvoices({}, as(owner));
    expect(invoices.map(({ totalNanoUsd }) => totalNanoUsd)).toEqual([0n, 0n]);
    // The job's is on last month's invoice, but was made in this month.
    const thisMonth = new Date(await deps.databaseNow(deps.database.pool)).toISOString().slice(0, 7);
    for (const { id } of invoices) {
      const { lineItems } = (await billing.getInvoice({ invoiceId: id }, as(owner))).invoice!;
      expect(new Set(lineItems.map(({ usageMonth }) => usageMonth))).toEqual(new Set([thisMonth]));
    }
    await sound(started);
  },
);

/** The owner of an organization that only its credit pays for, a day into the next month. */
async function prepaidOwner(started: TestBilling) {
  const { billing } = started;
  const owner = person();
  await toNextMonth(started, dayMs);
  await billing.putPlan({ plan: { code: 'prepaid', name: 'Prepaid' } }, operator);
  await billing.assignPlan({ tenantId: owner.tenantId, planCode: 'prepaid' }, operator);
  return owner;
}

test.each([
  { title: 'promotional credit that has ended, and the wallet for what a call took of that', called: 2n },
  { title: 'promotional credit that has ended, and no commitment that begins then', commitment: 3n },
])(
  'a job that waits while credit ends takes room only from what will pay for it: $title',
  async ({ called = 0n, commitment = 0n }) => {
    await using started = await startTestBilling();
    const { billing, deps } = started;
    const owner = await prepaidOwner(started);
    const { tenantId, userId } = owner;
    const now = () => deps.databaseNow(deps.database.pool);
    const endMs = (await now()) + 60_000;
    const give = (source: LotSource, amount: bigint, expiresAt?: Timestamp) =>
      billing.grantCredit({ requestId: uuidv7(), tenantId, source, amountNanoUsd: amount * usd, expiresAt }, operator);
    await give(LotSource.PROMOTION, 10n, timestampFromMs(endMs));
    await give(LotSource.PURCHASE, 5n);
    if (commitment > 0n) {
      const period = { periodStart: timestampFromMs(endMs), periodEnd: timestampFromMs(endMs + dayMs) };
      await billing.createCommitment(
        { requestId: uuidv7(), tenantId, amountNanoUsd: commitment * usd, ...period },
        operator,
      );
    }
    const ask = async (costMaxNanoUsd: bigint) => {
      const demands = [{ kind: BudgetKind.ORGANIZATION, leaseId: v7({ msecs: await now() }) }];
      const timeToLive = { seconds: 86_400n };
      await billing.lease({ holderId: uuidv7(), tenantId, userId, costMaxNanoUsd, demands, timeToLive }, service);
      return demands[0]!.leaseId;
    };
    const charge = async (leaseId: string, costNanoUsd: bigint) =>
      billing.charge(
        { events: [usageEvent({ tenantId, userId, costNanoUsd, atMs: await now(), leaseIds: [leaseId] })] },
        service,
      );
    const job = await ask(10n * usd);
    if (called > 0n) await charge(await ask(called * usd), called * usd);

    started.travel(120_000);
    const room = (5n - called + commitment) * usd;
    const call = await ask(room - 1n);
    const last = await ask(1n);
    await expect(ask(1n)).rejects.toThrow('is held by requests');
    expect(await expireCredit(deps)).toBe(1);
    await expect(ask(1n)).rejects.toThrow('is held by requests');
    await charge(job, 10n * usd);
    await charge(call, room - 1n);
    await charge(last, 1n);
    await expect(ask(1n)).rejects.toThrow('no credit left');
    const { invoices } = await billing.listInvoices({}, as(owner));
    expect(invoices.map(({ totalNanoUsd }) => totalNanoUsd)).toEqual([0n]);
    await sound(started);
  },
);

test.each([
  { of: 'the job alone', sliceNanoUsd: 0n },
  { of: 'the jobs of a worker', sliceNanoUsd: usd },
])(
  'a job whose room was found anew after its first start is paid by what gave that, as a commitment that had begun: room of $of',
  async ({ sliceNanoUsd }) => {
    await using started = await startTestBilling();
    const { billing, deps } = started;
    const owner = await prepaidOwner(started);
    const { tenantId, userId } = owner;
    const startedMs = await deps.databaseNow(deps.database.pool);
    const period = {
      periodStart: timestampFromMs(startedMs + 60_000),
      periodEnd: timestampFromMs(startedMs + dayMs),
    };
    await billing.createCommitment({ requestId: uuidv7(), tenantId, amountNanoUsd: 3n * usd, ...period }, operator);
    started.travel(120_000);
    // The machine that asks has another clock.
    const demands = [{ kind: BudgetKind.ORGANIZATION, leaseId: uuidv7(), sliceNanoUsd }];
    const costNanoUsd = usd / 10n;
    await billing.lease({ holderId: uuidv7(), tenantId, userId, costMaxNanoUsd: costNanoUsd, demands }, service);
    const call = { tenantId, userId, jobId: uuidv7(), atMs: startedMs, leaseIds: [demands[0]!.leaseId] };
    await billing.charge({ events: [usageEvent({ ...call, costNanoUsd })] }, service);
    expect((await billing.getCommitment({}, as(owner))).commitment!.consumedNanoUsd).toBe(costNanoUsd);
    const { invoices } = await billing.listInvoices({}, as(owner));
    expect(invoices.map(({ totalNanoUsd }) => totalNanoUsd)).toEqual([0n]);
    await sound(started);
  },
);
