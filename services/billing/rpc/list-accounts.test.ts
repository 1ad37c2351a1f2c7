import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { expect, test } from 'vitest';
import { AccountStanding, FundsState } from '#gen/modelgateway/billing/v1/account_summary_pb.ts';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { as, operator, person, service, startTestBilling, toNextMonth, usageEvent } from '../fixtures/test-billing.ts';
import { finalizeInvoices } from '../workers/finalize-invoices.ts';

const usd = 1_000_000_000n;
const dayMs = 86_400_000;

test('operators list who spends most, who runs out of funds and who is overdue, in the figures of each account', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const now = () => deps.databaseNow(deps.database.pool);
  const names = ['late', 'big', 'capped', 'roomy', 'spent', 'included', 'owing', 'stranger'] as const;
  const people = Object.fromEntries(names.map((name) => [name, person()])) as Record<
    (typeof names)[number],
    ReturnType<typeof person>
  >;
  const nameOf = new Map(names.map((name) => [people[name].tenantId, name]));
  const spend = async (name: (typeof names)[number], costUsd: bigint) => {
    const { tenantId } = people[name];
    await billing.charge(
      { events: [usageEvent({ tenantId, costNanoUsd: costUsd * usd, atMs: await now() })] },
      service,
    );
  };
  const grant = (name: (typeof names)[number], amountUsd: bigint) => {
    const lot = { source: LotSource.PURCHASE, amountNanoUsd: amountUsd * usd };
    return billing.grantCredit({ requestId: uuidv7(), tenantId: people[name].tenantId, ...lot }, operator);
  };
  const assign = (name: (typeof names)[number], planCode: string) =>
    billing.assignPlan({ tenantId: people[name].tenantId, planCode }, operator);
  const included = { monthlyCreditNanoUsd: 2n * usd };
  await billing.putPlan({ plan: { code: 'included', name: 'Included', included } }, operator);

  await spend('late', 3n);
  await toNextMonth(started, 2 * 3_600_000);
  await finalizeInvoices(deps);
  const { number } = (await billing.listInvoices({}, as(people.late))).invoices[0]!;
  await assign('included', 'included');
  await spend('included', 8n);
  // The invoice was due on the 31st day.
  await toNextMonth(started, 3 * dayMs);
  await spend('big', 9n);
  for (const [name, costUsd] of [
    ['capped', 8n],
    ['roomy', 7n],
  ] as const) {
    await billing.setPaygSpendCap({ limitNanoUsd: 10n * usd }, as(people[name]));
    await spend(name, costUsd);
  }
  await assign('spent', 'prepaid');
  await grant('spent', 5n);
  await spend('spent', 5n);
  await assign('owing', 'prepaid');
  await grant('owing', 1n);
  const owed = { amountNanoUsd: -4n * usd, description: 'A lost dispute', allowNegativeBalance: true };
  await billing.postAdjustment({ requestId: uuidv7(), tenantId: people.owing.tenantId, ...owed }, operator);
  const period = {
    periodStart: timestampFromMs((await now()) - dayMs),
    periodEnd: timestampFromMs((await now()) + dayMs),
  };
  const agreed = { requestId: uuidv7(), tenantId: people.owing.tenantId, amountNanoUsd: 6n * usd, ...period };
  await billing.createCommitment(agreed, operator);

  const list = async (request: { tenantIds?: string[]; standing?: AccountStanding }) =>
    (await billing.listAccounts(request, operator)).accounts.map((account) => ({
      ...account,
      name: nameOf.get(account.tenantId)!,
    }));
  const named = await list({ tenantIds: names.map((name) => people[name].tenantId) });
  const { SUFFICIENT, LOW, EXHAUSTED } = FundsState;
  const figures = named.map(({ name, spentNanoUsd, creditNanoUsd, leftNanoUsd, funds, overdueNanoUsd }) => [
    name,
    ...[spentNanoUsd, creditNanoUsd, leftNanoUsd, overdueNanoUsd].map((amount) =>
      amount === undefined ? null : Number(amount / usd),
    ),
    funds,
  ]);
  expect(figures.slice(0, 4)).toEqual([
    ['big', 9, 0, null, 0, SUFFICIENT],
    ['capped', 8, 0, 2, 0, LOW],
    ['roomy', 7, 0, 3, 0, SUFFICIENT],
    ['spent', 5, 0, 0, 0, EXHAUSTED],
  ]);
  expect(figures.slice(4)).toEqual(
    expect.arrayContaining([
      ['late', 0, 0, null, 3, SUFFICIENT],
      // This month's credit is still to be given; last month 8 were spent.
      ['included', 0, 2, 2, 0, LOW],
      ['owing', 0, -3, 6, 0, SUFFICIENT],
      ['stranger', 0, 0, null, 0, SUFFICIENT],
    ]),
  );

  const namesIn = async (standing: AccountStanding) => (await list({ standing })).map(({ name }) => name);
  expect(await namesIn(AccountStanding.SPENDING)).toEqual(['big', 'capped', 'roomy', 'spent']);
  expect(await namesIn(AccountStanding.LOW)).toEqual(['capped', 'included']);
  expect(await namesIn(AccountStanding.EXHAUSTED)).toEqual(['spent']);
  expect(await namesIn(AccountStanding.OVERDUE)).toEqual(['late']);
  expect(new Set(await namesIn(AccountStanding.UNSPECIFIED))).toEqual(new Set(names).difference(new Set(['stranger'])));

  // The same as each account says for itself.
  for (const { tenantId, name, ...account } of named) {
    const { plan, wallet, receivableNanoUsd } = await billing.getAccount({ tenantId }, operator);
    expect(account, name).toMatchObject({
      planCode: plan!.code,
      planName: plan!.name,
      creditNanoUsd: wallet!.balanceNanoUsd,
      receivableNanoUsd,
    });
    const { fundsExhausted } = await billing.getCurrentPlan({}, as(people[name]));
    expect(account.funds === EXHAUSTED, name).toBe(fundsExhausted);
  }

  // Whose invoice a number is on.
  for (const written of [number, ` ${number.toLowerCase()} `, 'inv1', '1']) {
    const found = await billing.findInvoice({ number: written }, operator);
    expect(found, written).toMatchObject({
      tenantId: people.late.tenantId,
      invoice: { number, totalNanoUsd: 3n * usd },
    });
  }
  for (const written of ['', 'INV-000003', 'INV-', 'INV-1a', '9'.repeat(30)]) {
    const refused = billing.findInvoice({ number: written }, operator);
    await expect(refused, written).rejects.toMatchObject({ reason: ErrorReason.NOT_FOUND });
  }
  const { tenantId, invoice } = await billing.findInvoice({ number }, operator);
  await billing.markInvoicePaid({ tenantId, invoiceId: invoice!.id }, operator);
  expect(await namesIn(AccountStanding.OVERDUE)).toEqual([]);

  const asOwner = as(people.late);
  for (const refused of [billing.listAccounts({}, asOwner), billing.findInvoice({ number }, asOwner)]) {
    await expect(refused).rejects.toMatchObject({ reason: ErrorReason.INSUFFICIENT_ROLE });
  }
});
