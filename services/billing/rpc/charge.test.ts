import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { costNanoUsdMax } from '#shared/money.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import {
  as,
  dearestPrice,
  operator,
  person,
  service,
  startTestBilling,
  type TestBilling,
  usageEvent,
} from '../fixtures/test-billing.ts';

const usd = 1_000_000_000n;
const dayMs = 86_400_000;

let test1: TestBilling;

beforeAll(async () => {
  test1 = await startTestBilling();
});
afterAll(() => test1.close());

const grant = (tenantId: string, source: LotSource, amountNanoUsd: bigint, expiresInMs?: number) =>
  test1.billing.grantCredit(
    {
      requestId: uuidv7(),
      tenantId,
      source,
      amountNanoUsd,
      expiresAt: expiresInMs === undefined ? undefined : timestampFromMs(Date.now() + expiresInMs),
    },
    operator,
  );

const sound = async (tenantId = ''): Promise<void> => {
  const { faults } = await test1.billing.verifyLedger({ tenantId }, service);
  expect(faults).toEqual([]);
};

test('an organization that nobody set up is charged by PAYG on the default plan', async () => {
  const owner = person();
  const { tenantId } = owner;
  const answer = await test1.billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: 123_456n })] }, service);
  expect(answer).toMatchObject({ charged: 1, duplicates: 0, refused: [] });
  const { plan } = await test1.billing.getCurrentPlan({}, as(owner));
  expect(plan).toMatchObject({ code: 'developer', paygEnabled: true });
  const { budget } = await test1.billing.getPaygSpendCap({}, as(owner));
  expect(budget!.spentNanoUsd).toBe(123_456n);
  expect(budget!.limitNanoUsd).toBeUndefined();
  await sound(tenantId);
});

test('usage is paid from the commitment, then promotional lots by expiry, then paid lots, then PAYG', async () => {
  const owner = person();
  const { tenantId } = owner;
  await grant(tenantId, LotSource.PURCHASE, 10n * usd);
  await grant(tenantId, LotSource.PROMOTION, 5n * usd, 20 * dayMs);
  await grant(tenantId, LotSource.PROMOTION, 3n * usd, 10 * dayMs);
  await test1.billing.createCommitment(
    {
      requestId: uuidv7(),
      tenantId,
      amountNanoUsd: 2n * usd,
      periodStart: timestampFromMs(Date.now() - dayMs),
      periodEnd: timestampFromMs(Date.now() + 30 * dayMs),
    },
    operator,
  );
  const spend = (costNanoUsd: bigint) =>
    test1.billing.charge({ events: [usageEvent({ tenantId, costNanoUsd })] }, service);
  const state = async () => {
    const { wallet } = await test1.billing.getWallet({}, as(owner));
    const { commitment } = await test1.billing.getCommitment({}, as(owner));
    const { budget } = await test1.billing.getPaygSpendCap({}, as(owner));
    return [commitment!.remainingNanoUsd, wallet!.lots.map((lot) => lot.remainingNanoUsd), budget!.spentNanoUsd];
  };

  expect(await state()).toEqual([2n * usd, [3n * usd, 5n * usd, 10n * usd], 0n]);
  await spend(3n * usd);
  expect(await state()).toEqual([0n, [2n * usd, 5n * usd, 10n * usd], 0n]);
  await spend(8n * usd);
  expect(await state()).toEqual([0n, [9n * usd], 0n]);
  await spend(10n * usd);
  expect(await state()).toEqual([0n, [], 1n * usd]);
  await sound(tenantId);
});

test('an event is charged once, however often and in however many concurrent batches it arrives', async () => {
  const { tenantId } = person();
  const events = Array.from({ length: 50 }, () => usageEvent({ tenantId, costNanoUsd: 1_000n }));
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, start) =>
      test1.billing.charge({ events: [...events.slice(start), ...events.slice(0, start), events[0]!] }, service),
    ),
  );
  expect(answers.reduce((sum, { charged }) => sum + charged, 0)).toBe(50);
  expect(answers.every(({ charged, duplicates }) => charged + duplicates === 51)).toBe(true);
  const { transactions, pageInfo } = await test1.billing.listTransactions(
    { type: TransactionType.USAGE },
    as(person({ tenantId })),
  );
  expect(pageInfo!.total).toBe(50n);
  expect(transactions[0]).toMatchObject({ amountNanoUsd: -1_000n });
  await sound(tenantId);
});

test('one bad event is refused and the others of its batch are charged', async () => {
  const { tenantId } = person();
  const bad = [
    usageEvent({ tenantId, costNanoUsd: 5n, priceVersionId: uuidv7() }),
    usageEvent({ tenantId, costNanoUsd: 5n, priceVersionId: '' }),
    usageEvent({ tenantId, costNanoUsd: -5n }),
    usageEvent({ tenantId: 'nobody', costNanoUsd: 5n }),
    usageEvent({ tenantId, costNanoUsd: 5n, leaseIds: ['x'] }),
  ];
  const answer = await test1.billing.charge({ events: [...bad, usageEvent({ tenantId, costNanoUsd: 7n })] }, service);
  expect(answer.charged).toBe(1);
  expect(answer.refused.map(({ eventId }) => eventId)).toEqual(bad.map(({ id }) => id));
});

test("a call counts on the day when its room was found, or else when it was made; a clock that is ahead does not make it tomorrow's", async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const owner = person();
  const { tenantId, userId } = owner;
  const apiKeyId = uuidv7();
  const charge = (atMs: number, leaseIds: string[] = []) =>
    billing.charge({ events: [usageEvent({ tenantId, userId, apiKeyId, costNanoUsd: 1n, atMs, leaseIds })] }, service);
  const now = () => deps.databaseNow(deps.database.pool);
  const spentToday = async () => {
    const { spends } = await billing.getSpendToday({ apiKeyIds: [apiKeyId], tenantId: owner.tenantId }, service);
    return [spends[0]?.spentNanoUsd, (await billing.getCostLimit({}, as(owner))).budget!.spentNanoUsd];
  };
  // Just after midnight.
  started.travel(dayMs - ((await now()) % dayMs));
  await billing.setCostLimit({ limitNanoUsd: usd }, as(owner));
  const demands = [
    { kind: BudgetKind.API_KEY, leaseId: uuidv7(), limitNanoUsd: usd },
    { kind: BudgetKind.USER, leaseId: uuidv7() },
  ];
  const asked = { holderId: uuidv7(), tenantId, userId, apiKeyId, costMaxNanoUsd: 1n, demands };
  await billing.lease(asked, service);
  await charge((await now()) + dayMs);
  expect(await spentToday()).toEqual([1n, 1n]);
  const yesterdayMs = (await now()) - dayMs;
  await charge(yesterdayMs);
  expect(await spentToday()).toEqual([1n, 1n]);
  await charge(
    yesterdayMs,
    demands.map(({ leaseId }) => leaseId),
  );
  expect(await spentToday()).toEqual([2n, 2n]);
});

test('a call that was charged may be made again without any room, for instance as the job of a worker that died', async () => {
  const { billing } = test1;
  const caller = { tenantId: uuidv7(), userId: uuidv7(), apiKeyId: uuidv7() };
  const event = usageEvent({ ...caller, costNanoUsd: 5n });
  const ask = (usageEventId?: string, tenantId = caller.tenantId) => {
    const demands = [{ kind: BudgetKind.API_KEY, leaseId: uuidv7(), limitNanoUsd: 0n }];
    const question = { ...caller, tenantId, holderId: uuidv7(), costMaxNanoUsd: 5n, demands, usageEventId };
    return billing.lease(question, service);
  };
  // Of a job that had no room, only this is asked.
  const isCharged = async () =>
    (await billing.lease({ ...caller, holderId: uuidv7(), usageEventId: event.id }, service)).isCharged;
  const refusal = { reason: ErrorReason.SPEND_CAP_EXCEEDED };
  await expect(ask(event.id)).rejects.toMatchObject(refusal);
  expect(await isCharged()).toBe(false);
  await billing.charge({ events: [event] }, service);
  expect(await isCharged()).toBe(true);
  expect(await ask(event.id)).toMatchObject({ isCharged: true, leases: [{ unlimited: true }] });
  await expect(ask()).rejects.toMatchObject(refusal);
  await expect(ask(uuidv7())).rejects.toMatchObject(refusal);
  await expect(ask(event.id, uuidv7())).rejects.toMatchObject(refusal);
});

test('nobody pays for a call that was voided, whether it was charged before, is charged later or never, however often it is said', async () => {
  const { billing } = test1;
  const owner = person();
  const { tenantId } = owner;
  await grant(tenantId, LotSource.PURCHASE, 4n);
  const [early, late] = [usageEvent({ tenantId, costNanoUsd: 5n }), usageEvent({ tenantId, costNanoUsd: 7n })];
  const voided = ({ id: usageEventId }: { id: string }) =>
    billing.voidCharge({ tenantId, usageEventId, description: 'The job failed.' }, service);
  await billing.charge({ events: [early] }, service);
  await Promise.all([voided(early), voided(early), voided(late), voided(late)]);
  await expect(billing.charge({ events: [early, late] }, service)).resolves.toMatchObject({ duplicates: 2 });
  await Promise.all([voided(early), voided(late)]);
  const { transactions } = await billing.listTransactions({}, as(owner));
  const charge = transactions.find(({ type }) => type === TransactionType.USAGE)!;
  expect(transactions.map(({ amountNanoUsd }) => amountNanoUsd)).toEqual([5n, -5n, 4n]);
  expect(transactions[0]).toMatchObject({ type: TransactionType.REFUND, description: 'The job failed.' });
  const { rows } = await test1.deps.database.query({
    text: 'select reverses_id from transactions where tenant_id = $1 and reverses_id is not null',
    values: [tenantId],
  });
  expect(rows).toEqual([{ reverses_id: charge.id }]);
  expect((await billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd).toBe(5n);
  await sound(tenantId);
  await expect(
    billing.voidCharge({ tenantId, usageEventId: early.id, description: 'no' }, as(owner)),
  ).rejects.toMatchObject({ reason: ErrorReason.INSUFFICIENT_ROLE });
});

test('what a voided call used of its holds is free at once, though its charge never comes, and what another holds is not', async () => {
  const { billing } = test1;
  const owner = person();
  const caller = { tenantId: owner.tenantId, userId: owner.userId, apiKeyId: uuidv7() };
  await billing.setPaygSpendCap({ limitNanoUsd: 0n }, as(owner));
  await grant(caller.tenantId, LotSource.PURCHASE, 5n);
  /** As a job holds room, by whose call all of it is used. */
  const used = async (costNanoUsd: bigint): Promise<string[]> => {
    const holderId = uuidv7();
    const demands = [
      { kind: BudgetKind.API_KEY, leaseId: uuidv7(), limitNanoUsd: 5n },
      { kind: BudgetKind.ORGANIZATION, leaseId: uuidv7() },
    ];
    await billing.lease({ ...caller, holderId, costMaxNanoUsd: costNanoUsd, demands }, service);
    const settlements = demands.map(({ leaseId }) => ({ leaseId, fencingToken: 1n, usedNanoUsd: costNanoUsd }));
    await billing.settle({ holderId, settlements }, service);
    return demands.map(({ leaseId }) => leaseId);
  };
  const held = async () => {
    const { rows } = await test1.deps.database.query<{ held: bigint }>({
      text: 'select held_nano_usd as held from spend where tenant_id = $1 order by kind',
      values: [caller.tenantId],
    });
    return rows.map((row) => row.held);
  };
  const [leaseIds, others] = [await used(3n), await used(2n)];
  expect(await held()).toEqual([5n, 5n]);
  const lost = usageEvent({ ...caller, costNanoUsd: 3n, leaseIds });
  const voided = { tenantId: caller.tenantId, usageEventId: lost.id, description: 'lost', leaseIds };
  await billing.voidCharge(voided, service);
  expect(await held()).toEqual([2n, 2n]);
  await billing.voidCharge(voided, service);
  await billing.charge({ events: [lost] }, service);
  expect(await held()).toEqual([2n, 2n]);
  // Nobody frees the holds of another organization.
  await billing.voidCharge({ ...voided, tenantId: uuidv7(), leaseIds: others }, service);
  expect(await held()).toEqual([2n, 2n]);
});

test('truth, ledger, counters and invoice lines agree to the nano-USD on a random workload', async () => {
  const tenants = Array.from({ length: 5 }, () => person());
  const keys = Array.from({ length: 5 }, () => uuidv7());
  for (const { tenantId } of tenants) {
    await grant(tenantId, LotSource.PROMOTION, 40_000_003n, 3 * dayMs);
    await grant(tenantId, LotSource.PURCHASE, 70_000_019n);
  }
  const truth = new Map<string, bigint>();
  let seed = 12_345;
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed % below;
  };
  const events = Array.from({ length: 2_000 }, () => {
    const which = random(5);
    const { tenantId, userId } = tenants[which]!;
    const inputTokens = BigInt(random(900));
    const cachedInputTokens = BigInt(random(Number(inputTokens) + 1));
    const outputTokens = BigInt(random(500));
    const costNanoUsd = inputTokens * 1_000n + outputTokens * 3_000n + BigInt(random(2));
    truth.set(tenantId, (truth.get(tenantId) ?? 0n) + costNanoUsd);
    return usageEvent({
      tenantId,
      userId,
      apiKeyId: keys[which]!,
      costNanoUsd,
      usage: { inputTokens, cachedInputTokens, outputTokens, costNanoUsd },
    });
  });
  const batches = [];
  for (let start = 0; start < events.length; start += 170) batches.push(events.slice(start, start + 230));
  // Each is retried until accepted, as Usage does: on a busy machine a dozen at once may get no connection in time.
  const taken = { description: 'a batch that is charged' };
  await Promise.all(batches.map((events) => waitFor(() => test1.billing.charge({ events }, service), taken)));

  for (const [index, { tenantId, userId }] of tenants.entries()) {
    const owner = as(person({ tenantId, userId }));
    const spent = truth.get(tenantId)!;
    const { spends } = await test1.billing.getSpendToday({ apiKeyIds: [keys[index]!], tenantId }, service);
    expect(spends[0]!.spentNanoUsd).toBe(spent);
    expect((await test1.billing.getCostLimit({}, owner)).budget!.spentNanoUsd).toBe(spent);
    const { invoices } = await test1.billing.listInvoices({}, owner);
    const { invoice } = await test1.billing.getInvoice({ invoiceId: invoices[0]!.id }, owner);
    expect(invoice!.subtotalNanoUsd).toBe(spent);
    expect(invoice!.lineItems.reduce((sum, { line }) => sum + line!.amountNanoUsd, 0n)).toBe(spent);
    expect(invoice!.totalNanoUsd).toBe(spent > 110_000_022n ? spent - 110_000_022n : 0n);
  }
  await sound();
});

test('the largest call that Usage accepts is charged at the highest rates, with lines that add up to its cost', async () => {
  const owner = person();
  const { tenantId } = owner;
  const most = 1_000_000_000_000n;
  const costNanoUsd = costNanoUsdMax;
  const usage = { inputTokens: most, outputTokens: most, images: most, costNanoUsd };
  const event = usageEvent({ tenantId, costNanoUsd, priceVersionId: dearestPrice.id, usage });
  expect(await test1.billing.charge({ events: [event] }, service)).toMatchObject({ charged: 1 });
  const { invoices } = await test1.billing.listInvoices({}, as(owner));
  const { invoice } = await test1.billing.getInvoice({ invoiceId: invoices[0]!.id }, as(owner));
  expect(invoice!.lineItems.reduce((sum, { line }) => sum + line!.amountNanoUsd, 0n)).toBe(costNanoUsd);
  for (const { line } of invoice!.lineItems) expect(line!.amountNanoUsd).toBeGreaterThanOrEqual(0n);
  await sound(tenantId);
});

test('the role under which services work can neither edit nor delete what was posted, nor post out of balance', async () => {
  const { tenantId } = person();
  await test1.billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: 9n })] }, service);
  const { pool } = test1.deps.database;
  for (const table of ['transactions', 'entries']) {
    await expect(pool.query(`update ${table} set tenant_id = tenant_id`)).rejects.toThrow('permission denied');
    await expect(pool.query(`delete from ${table}`)).rejects.toThrow('permission denied');
    await expect(pool.query(`truncate ${table}`)).rejects.toThrow('permission denied');
  }
  const addition = `
    insert into entries (tenant_id, transaction_id, ordinal, account, amount_nano_usd)
    select tenant_id, id, 7 + amount, 5, amount from transactions, (values (-1), (1)) as added (amount)
    where tenant_id = '${tenantId}'`;
  await expect(pool.query(addition)).rejects.toThrow('same commit');
  const headless = (id: string) => `
    insert into transactions (tenant_id, id, type, amount_nano_usd, balance_after_nano_usd, posted_at)
    values ('${tenantId}', '${id}', 1, -1, 0, now())`;
  const entries = (id: string, ...amounts: number[]) => `
    insert into entries (tenant_id, transaction_id, ordinal, account, amount_nano_usd)
    values ${amounts.map((amount) => `('${tenantId}', '${id}', ${Math.abs(amount)}, 5, ${amount})`).join(', ')}`;
  await expect(pool.query(headless(uuidv7()))).rejects.toThrow('comes with its entries');
  for (const amounts of [[3], [3, -2], [-4]]) {
    const id = uuidv7();
    await expect(pool.query(`with posted as (${headless(id)}) ${entries(id, ...amounts)}`)).rejects.toThrow(
      'not balanced',
    );
    // Nor later in the same transaction, to a posting that is in balance.
    const later = uuidv7();
    const whole = `with posted as (${headless(later)}) ${entries(later, 9)}, ('${tenantId}', '${later}', 10, 7, -9)`;
    await expect(pool.query(`${whole}; ${entries(later, ...amounts)}`)).rejects.toThrow('not balanced');
  }
  await sound(tenantId);
});

test('the verification finds every kind of error', async () => {
  await using broken = await startTestBilling();
  const { tenantId } = person();
  await broken.billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: 9n })] }, service);
  const { default: pg } = await import('pg');
  const admin = new pg.Client({ connectionString: broken.database.url });
  await admin.connect();
  await admin.query(`
    set search_path = billing;
    update entries set amount_nano_usd = amount_nano_usd - 1 where account = 5;
    update invoice_lines set amount_nano_usd = amount_nano_usd + 1`);
  await admin.end();
  const { faults } = await broken.billing.verifyLedger({}, service);
  expect([...new Set(faults.map(({ kind }) => kind))].sort()).toEqual([1, 2, 3, 4]);
});
