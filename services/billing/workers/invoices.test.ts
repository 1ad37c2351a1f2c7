import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import pg from 'pg';
import { expect, test } from 'vitest';
import { InvoiceStatus, PaymentStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7, uuidv7Ms } from '#shared/ids.ts';
import { lockWaiters } from '../../../test/support/people.ts';
import { createTestDatabase } from '../../../test/support/postgres.ts';
import { startPostgresProxy } from '../../../test/support/postgres-proxy.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import {
  as,
  operator,
  paymentSignature,
  person,
  service,
  sound,
  startTestBilling,
  type TestBilling,
  toNextMonth,
  usageEvent,
} from '../fixtures/test-billing.ts';
import { eachOrganization } from './each-organization.ts';
import { finalizeInvoices } from './finalize-invoices.ts';
import { grantMonthlyCredit } from './grant-monthly-credit.ts';

const usd = 1_000_000_000n;
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

test('on the 1st, an hour in, each draft is finalized by exactly one of many workers, numbered without gaps', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const owners = Array.from({ length: 12 }, () => person());
  await billing.grantCredit(
    { requestId: uuidv7(), tenantId: owners[0]!.tenantId, source: LotSource.PURCHASE, amountNanoUsd: 10n * usd },
    operator,
  );
  const events = owners.map(({ tenantId }) => usageEvent({ tenantId, costNanoUsd: 3n * usd + 7n }));
  await billing.charge({ events }, service);

  await toNextMonth(started, hourMs - 60_000);
  expect(await finalizeInvoices(deps)).toBe(0);
  started.travel(2 * 60_000);
  const counts = await Promise.all(Array.from({ length: 6 }, () => finalizeInvoices(deps)));
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(12);
  expect(await finalizeInvoices(deps)).toBe(0);

  const invoices = await Promise.all(owners.map(async (owner) => (await billing.listInvoices({}, as(owner))).invoices));
  expect(invoices.every((own) => own.length === 1 && own[0]!.status === InvoiceStatus.FINALIZED)).toBe(true);
  const numbers = invoices.map(([own]) => own!.number).sort();
  expect(numbers).toEqual(Array.from({ length: 12 }, (_, index) => `INV-${String(index + 1).padStart(6, '0')}`));

  const [paidByCredit, byPayg] = [invoices[0]![0]!, invoices[1]![0]!];
  expect(paidByCredit).toMatchObject({
    creditsNanoUsd: 3n * usd + 7n,
    totalNanoUsd: 0n,
    paymentStatus: PaymentStatus.PAID,
  });
  expect(byPayg).toMatchObject({
    creditsNanoUsd: 0n,
    totalNanoUsd: 3n * usd + 7n,
    paymentStatus: PaymentStatus.PENDING,
  });
  const { receivableNanoUsd } = await billing.getAccount({ tenantId: owners[1]!.tenantId }, operator);
  expect(receivableNanoUsd).toBe(3n * usd + 7n);
  await sound(started);
});

test('a draft read while calls are charged adds up', async () => {
  await using started = await startTestBilling();
  const { billing } = started;
  const owner = person();
  const { tenantId } = owner;
  await billing.grantCredit(
    { requestId: uuidv7(), tenantId, source: LotSource.PURCHASE, amountNanoUsd: 1_000n * usd },
    operator,
  );
  const charge = () => billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: usd })] }, service);
  await charge();
  const { id } = (await billing.listInvoices({}, as(owner))).invoices[0]!;
  let isOver = false;
  const charging = (async () => {
    while (!isOver) await charge();
  })();
  try {
    for (let look = 0; look < 100; look += 1) {
      const invoice = (await billing.getInvoice({ invoiceId: id }, as(owner))).invoice!;
      const lines = invoice.lineItems.reduce((sum, { line }) => sum + line!.amountNanoUsd, 0n);
      expect([look, lines]).toEqual([look, invoice.subtotalNanoUsd]);
    }
  } finally {
    isOver = true;
    await charging;
  }
});

test('what arrives after an invoice is final goes on the next one, and the final one never changes; a month without one gets it late', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const owner = person();
  const { tenantId } = owner;
  const late = usageEvent({ tenantId, costNanoUsd: 5n });
  await billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: 2n * usd })] }, service);
  await toNextMonth(started, 10 * 60_000);
  // Within the hour of grace it still belongs to its own month.
  await billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: 1n * usd })] }, service);
  started.travel(2 * hourMs);
  await finalizeInvoices(deps);
  await billing.charge({ events: [late] }, service);
  const { invoices } = await billing.listInvoices({}, as(owner));
  expect(invoices.map(({ status, subtotalNanoUsd }) => [status, subtotalNanoUsd])).toEqual([
    [InvoiceStatus.DRAFT, 5n],
    [InvoiceStatus.FINALIZED, 3n * usd],
  ]);
  const idle = person();
  const only = usageEvent({ tenantId: idle.tenantId, costNanoUsd: 7n, atMs: uuidv7Ms(late.id) });
  await billing.charge({ events: [only] }, service);
  expect(await finalizeInvoices(deps)).toBe(1);
  const theirs = (await billing.listInvoices({}, as(idle))).invoices;
  expect(theirs.map(({ periodStart, totalNanoUsd }) => [periodStart, totalNanoUsd])).toEqual([
    [invoices[1]!.periodStart, 7n],
  ]);
  await sound(started);
});

test('a final invoice never changes, though the database’s clock was ahead when it became final and goes back into its month', async () => {
  await using started = await startTestBilling();
  const { billing, deps, travel } = started;
  const owner = person();
  const { tenantId } = owner;
  await toNextMonth(started, -30 * 60_000);
  const atMs = await deps.databaseNow(deps.database.pool);
  const charge = () => billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: 2_000n, atMs })] }, service);
  await charge();
  travel(2 * hourMs);
  expect(await finalizeInvoices(deps)).toBe(1);
  const final = (await billing.listInvoices({}, as(owner))).invoices[0]!;
  travel(-2 * hourMs);
  await charge();
  const { invoices } = await billing.listInvoices({}, as(owner));
  expect(invoices.at(-1)).toEqual(final);
  expect(invoices.map(({ status, totalNanoUsd }) => [status, totalNanoUsd])).toEqual([
    [InvoiceStatus.DRAFT, 2_000n],
    [InvoiceStatus.FINALIZED, 2_000n],
  ]);
  const { receivableNanoUsd } = await billing.getAccount({ tenantId }, operator);
  expect(receivableNanoUsd).toBe(2_000n);
  await sound(started);
});

test('each line of an invoice is of calls of one month, and says so where that is not the month of the invoice', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const owner = person();
  const { tenantId } = owner;
  const charge = (...calls: [costNanoUsd: bigint, atMs?: number][]) => {
    const events = calls.map(([costNanoUsd, atMs = Date.now()]) => usageEvent({ tenantId, costNanoUsd, atMs }));
    return billing.charge({ events }, service);
  };
  const monthOf = (ms: number) => new Date(ms).toISOString().slice(0, 7);
  const madeIn = monthOf(Date.now());
  await charge([2_000n]);
  await toNextMonth(started, 2 * hourMs);
  await finalizeInvoices(deps);
  const nowMs = await deps.databaseNow(deps.database.pool);
  await charge([3_000n], [5_000n, nowMs]);
  await charge([4_000n]);
  const lines = [];
  for (const { id } of (await billing.listInvoices({}, as(owner))).invoices) {
    for (const { usageMonth, description, line } of (await billing.getInvoice({ invoiceId: id }, as(owner))).invoice!
      .lineItems) {
      lines.push([usageMonth, description, line!.amountNanoUsd]);
    }
  }
  expect(lines).toEqual([
    [madeIn, `test/model: input tokens, used in ${madeIn}`, 7_000n],
    [monthOf(nowMs), 'test/model: input tokens', 5_000n],
    [madeIn, 'test/model: input tokens', 2_000n],
  ]);

  // By a clock that is ahead it was made in a month that has not begun, in which reports count it.
  await toNextMonth(started, -1_000);
  const ahead = (await deps.databaseNow(deps.database.pool)) + 2_000;
  await charge([6_000n, ahead]);
  const [newest] = (await billing.listInvoices({}, as(owner))).invoices;
  const { lineItems } = (await billing.getInvoice({ invoiceId: newest!.id }, as(owner))).invoice!;
  expect(lineItems.at(-1)).toMatchObject({
    usageMonth: monthOf(ahead),
    description: `test/model: input tokens, used in ${monthOf(ahead)}`,
    line: { amountNanoUsd: 6_000n },
  });
});

test('an invoice is overdue after its due date, can be paid once, and can be voided only while unpaid', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const [paying, voided] = [person(), person()];
  const events = [paying, voided].map(({ tenantId }) => usageEvent({ tenantId, costNanoUsd: 4n * usd }));
  await billing.charge({ events }, service);
  await toNextMonth(started, 2 * hourMs);
  await finalizeInvoices(deps);
  const invoiceOf = async (owner: typeof paying) => (await billing.listInvoices({}, as(owner))).invoices[0]!;
  const { id: invoiceId } = await invoiceOf(paying);
  started.travel(30 * dayMs);
  expect((await invoiceOf(paying)).paymentStatus).toBe(PaymentStatus.PENDING);
  started.travel(dayMs);
  expect((await invoiceOf(paying)).paymentStatus).toBe(PaymentStatus.OVERDUE);
  const overdue = await billing.listInvoices({ paymentStatus: PaymentStatus.OVERDUE }, as(paying));
  expect(overdue.invoices).toHaveLength(1);

  const { tenantId } = paying;
  await Promise.all(Array.from({ length: 5 }, () => billing.markInvoicePaid({ tenantId, invoiceId }, operator)));
  expect((await invoiceOf(paying)).paymentStatus).toBe(PaymentStatus.PAID);
  const { transactions } = await billing.listTransactions({ type: TransactionType.PURCHASE }, as(paying));
  expect(transactions).toMatchObject([{ amountNanoUsd: 4n * usd, invoiceId }]);
  await expect(billing.voidInvoice({ tenantId, invoiceId }, operator)).rejects.toThrow('unpaid');

  const other = await invoiceOf(voided);
  const named = { tenantId: voided.tenantId, invoiceId: other.id };
  expect((await billing.voidInvoice(named, operator)).invoice!.status).toBe(InvoiceStatus.VOIDED);
  await expect(billing.markInvoicePaid(named, operator)).rejects.toThrow('finalized');
  expect((await billing.getAccount({ tenantId: voided.tenantId }, operator)).receivableNanoUsd).toBe(0n);
  await sound(started);
});

/** An organization that was charged this much beyond its credit, on a finalized invoice. */
async function invoiced(started: TestBilling, { creditNanoUsd = 0n, costNanoUsd = 4n * usd } = {}) {
  const { billing, deps } = started;
  const owner = person();
  const { tenantId } = owner;
  if (creditNanoUsd > 0n) {
    const grant = { requestId: uuidv7(), tenantId, source: LotSource.PURCHASE, amountNanoUsd: creditNanoUsd };
    await billing.grantCredit(grant, operator);
  }
  await billing.charge({ events: [usageEvent({ tenantId, costNanoUsd })] }, service);
  await toNextMonth(started, 2 * hourMs);
  await finalizeInvoices(deps);
  const { invoices } = await billing.listInvoices({ status: InvoiceStatus.FINALIZED }, as(owner));
  return { owner, tenantId, invoice: invoices[0]! };
}

test('an invoice is never paid before it was issued, nor in the future', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const { tenantId, invoice } = await invoiced(started);
  const issuedAtMs = timestampMs(invoice.issuedAt!);
  started.travel(dayMs);
  const pay = (paidAtMs: number) =>
    billing.markInvoicePaid({ tenantId, invoiceId: invoice.id, paidAt: timestampFromMs(paidAtMs) }, operator);
  const dayOfIssueMs = issuedAtMs - (issuedAtMs % dayMs);
  for (const impossibleMs of [dayOfIssueMs - 1, (await deps.databaseNow(deps.database.pool)) + hourMs]) {
    await expect(pay(impossibleMs)).rejects.toMatchObject({
      reason: ErrorReason.INVALID_REQUEST,
      details: { param: 'paid_at' },
    });
  }
  // A clock that is slightly ahead does not count as the future.
  const paid = await pay((await deps.databaseNow(deps.database.pool)) + 10_000);
  expect(paid.invoice!.paymentStatus).toBe(PaymentStatus.PAID);

  // Of a payment on the day of issue only the day may be known, which begins before.
  const other = await invoiced(started);
  const otherIssuedAtMs = timestampMs(other.invoice.issuedAt!);
  const paidAt = timestampFromMs(otherIssuedAtMs - (otherIssuedAtMs % dayMs));
  const named = { tenantId: other.tenantId, invoiceId: other.invoice.id, paidAt };
  expect((await billing.markInvoicePaid(named, operator)).invoice!.paidAt).toEqual(other.invoice.issuedAt);
});

/** The payment provider tells of something. */
async function tell({ billing, deps }: TestBilling, id: string, type: string, object: object): Promise<void> {
  const payload = JSON.stringify({ id, type, data: { object: { currency: 'usd', ...object } } });
  const seconds = Math.floor((await deps.databaseNow(deps.database.pool)) / 1_000);
  const event = { provider: 'stripe', payload: Buffer.from(payload), signature: paymentSignature(payload, seconds) };
  await billing.receivePaymentEvent(event, service);
}

test('a payment in whole cents pays an invoice that it covers, and the excess becomes credit, as does a payment that falls short', async () => {
  await using started = await startTestBilling();
  const { billing } = started;
  const { owner, tenantId, invoice } = await invoiced(started, { costNanoUsd: 4_123_456_789n });
  const pay = async (id: string, cents: number) => {
    const metadata = { tenant_id: tenantId, invoice_id: invoice.id };
    await tell(started, id, 'payment_intent.succeeded', { id: `pi_${id}`, amount_received: cents, metadata });
    const { paymentStatus } = (await billing.getInvoice({ invoiceId: invoice.id }, as(owner))).invoice!;
    const { receivableNanoUsd, wallet } = await billing.getAccount({ tenantId }, operator);
    return [paymentStatus, receivableNanoUsd, wallet!.balanceNanoUsd];
  };
  expect(await pay('evt_short', 412)).toEqual([PaymentStatus.PENDING, 4_123_456_789n, 4_120_000_000n]);
  expect(await pay('evt_covers', 413)).toEqual([PaymentStatus.PAID, 0n, 4_126_543_211n]);
  expect(await pay('evt_again', 413)).toEqual([PaymentStatus.PAID, 0n, 8_256_543_211n]);

  const exact = await invoiced(started);
  const metadata = { tenant_id: exact.tenantId, invoice_id: exact.invoice.id };
  await tell(started, 'evt_exact', 'payment_intent.succeeded', { id: 'pi_exact', amount_received: 400, metadata });
  const { receivableNanoUsd, wallet } = await billing.getAccount({ tenantId: exact.tenantId }, operator);
  expect([receivableNanoUsd, wallet!.balanceNanoUsd]).toEqual([0n, 0n]);
  await sound(started);
});

test('what goes back of a payment for an invoice is taken from the credit that its excess became, before gifts, and is then owed', async () => {
  await using started = await startTestBilling();
  const { billing } = started;
  const { owner, tenantId, invoice } = await invoiced(started);
  const metadata = { tenant_id: tenantId, invoice_id: invoice.id };
  await tell(started, 'evt_1', 'payment_intent.succeeded', { id: 'pi_1', amount_received: 1_000, metadata });
  const gift = { requestId: uuidv7(), tenantId, source: LotSource.PROMOTION, amountNanoUsd: 5n * usd };
  await billing.grantCredit(gift, operator);
  const left = async () => {
    const { wallet } = await billing.getAccount({ tenantId }, operator);
    const lots = wallet!.lots.map(({ source, remainingNanoUsd }) => [source, remainingNanoUsd / usd]);
    return [wallet!.balanceNanoUsd / usd, lots];
  };
  const back = (id: string, cents: number) =>
    tell(started, id, 'refund.created', { id, payment_intent: 'pi_1', amount: cents, status: 'succeeded' });
  await back('re_1', 600);
  expect(await left()).toEqual([5n, [[LotSource.PROMOTION, 5n]]]);
  await back('re_2', 400);
  expect(await left()).toEqual([1n, [[LotSource.PROMOTION, 1n]]]);
  await tell(started, 'evt_2', 'charge.dispute.funds_withdrawn', { id: 'du_1', payment_intent: 'pi_1', amount: 300 });
  expect(await left()).toEqual([-2n, []]);
  expect((await billing.getInvoice({ invoiceId: invoice.id }, as(owner))).invoice!.paymentStatus).toBe(
    PaymentStatus.PAID,
  );
  await sound(started);
});

test('an invoice that an operator marks as paid books the whole cents that it asked for, once: the excess becomes credit', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const owner = person();
  const { tenantId } = owner;
  await billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: 3n * usd + 1_000n })] }, service);
  await toNextMonth(started, 2 * hourMs);
  await finalizeInvoices(deps);
  const invoiceId = (await billing.listInvoices({}, as(owner))).invoices[0]!.id;
  await Promise.all([1, 2, 3].map(() => billing.markInvoicePaid({ tenantId, invoiceId }, operator)));
  const { transactions } = await billing.listTransactions({ type: TransactionType.PURCHASE }, as(owner));
  expect(transactions.map(({ amountNanoUsd, invoiceId: of }) => [amountNanoUsd, of])).toEqual([
    [9_999_000n, ''],
    [3n * usd + 1_000n, invoiceId],
  ]);
  const { receivableNanoUsd, wallet } = await billing.getAccount({ tenantId }, operator);
  expect([receivableNanoUsd, wallet!.balanceNanoUsd]).toEqual([0n, 9_999_000n]);
  await sound(started);
});

test('a voided invoice is not paid, even if nothing was due: money that names it, or no invoice at all, becomes credit', async () => {
  await using started = await startTestBilling();
  const { billing } = started;
  const { tenantId, invoice } = await invoiced(started, { creditNanoUsd: 4n * usd });
  expect(invoice.paymentStatus).toBe(PaymentStatus.PAID);
  const voided = (await billing.voidInvoice({ tenantId, invoiceId: invoice.id }, operator)).invoice!;
  expect(voided).toMatchObject({ status: InvoiceStatus.VOIDED, paymentStatus: PaymentStatus.PENDING });
  expect(voided.paidAt).toBeUndefined();
  for (const [place, invoice_id] of [invoice.id, uuidv7()].entries()) {
    const payment = { id: `pi_${place}`, amount_received: 100, metadata: { tenant_id: tenantId, invoice_id } };
    await tell(started, `evt_${place}`, 'payment_intent.succeeded', payment);
  }
  expect((await billing.getAccount({ tenantId }, operator)).wallet!.balanceNanoUsd).toBe(2n * usd);
});

test('a refund returns what credit paid for, and nothing that a voided invoice asked for', async () => {
  await using started = await startTestBilling();
  const { billing } = started;
  const { owner, tenantId, invoice } = await invoiced(started, { creditNanoUsd: 3n * usd });
  const { transactions } = await billing.listTransactions({ type: TransactionType.USAGE }, as(owner));
  await billing.voidInvoice({ tenantId, invoiceId: invoice.id }, operator);
  const refund = (amountNanoUsd: bigint) =>
    billing.refundTransaction(
      { requestId: uuidv7(), tenantId, transactionId: transactions[0]!.id, amountNanoUsd, description: 'Sorry' },
      operator,
    );
  await expect(refund(4n * usd)).rejects.toMatchObject({ reason: ErrorReason.CONFLICT });
  expect((await refund(0n)).transaction!.amountNanoUsd).toBe(3n * usd);
  await expect(refund(0n)).rejects.toMatchObject({ reason: ErrorReason.CONFLICT });
  await sound(started);
});

test('a refund returns a charge of one month in full, though the invoice of another was voided, for which it counts as nothing given', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const { owner, tenantId, invoice } = await invoiced(started);
  const { transactions } = await billing.listTransactions({ type: TransactionType.USAGE }, as(owner));
  const late = usageEvent({ tenantId, costNanoUsd: 3n * usd });
  await billing.charge({ events: [late] }, service);
  await toNextMonth(started, 2 * hourMs);
  await finalizeInvoices(deps);
  const { invoices } = await billing.listInvoices({}, as(owner));
  const other = invoices.find(({ id }) => id !== invoice.id)!;
  const refund = (amountNanoUsd: bigint) =>
    billing.refundTransaction(
      { requestId: uuidv7(), tenantId, transactionId: transactions[0]!.id, amountNanoUsd, description: 'Sorry' },
      operator,
    );
  await refund(usd);
  await billing.voidInvoice({ tenantId, invoiceId: other.id }, operator);
  expect((await refund(0n)).transaction!.amountNanoUsd).toBe(3n * usd);
  const { rows } = await deps.database.pool.query('select granted_credit from accounts');
  expect(rows).toEqual([{ granted_credit: 0n }]);
});

/** All orders of some things. */
const ordersOf = <Thing>(things: readonly Thing[]): Thing[][] =>
  things.length === 0
    ? [[]]
    : things.flatMap((first, index) => ordersOf(things.toSpliced(index, 1)).map((rest) => [first, ...rest]));

test('an invoice can be voided in any order with refunds, and what they refunded of it counts as given, not as revenue', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  // Credit pays 3 of the first charge; the invoice asks for 1 of it and for all of the second.
  const cases = ordersOf([['refund', 0, 2n], ['refund', 0, 2n], ['refund', 1, 3n], ['void']] as const).map((order) => ({
    order,
    owner: person(),
  }));
  for (const { tenantId } of cases.map(({ owner }) => owner)) {
    const grant = { requestId: uuidv7(), tenantId, source: LotSource.PURCHASE, amountNanoUsd: 3n * usd };
    await billing.grantCredit(grant, operator);
    await billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: 4n * usd })] }, service);
    await billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: 5n * usd })] }, service);
  }
  await toNextMonth(started, 2 * hourMs);
  await finalizeInvoices(deps);
  for (const { order, owner } of cases) {
    const { tenantId } = owner;
    const invoice = (await billing.listInvoices({}, as(owner))).invoices[0]!;
    expect(invoice.totalNanoUsd).toBe(6n * usd);
    const { transactions } = await billing.listTransactions({ type: TransactionType.USAGE }, as(owner));
    const charges = transactions.toSorted((a, b) => Number(b.amountNanoUsd - a.amountNanoUsd));
    let isVoided = false;
    // Of the first charge, of the second.
    const refunded: [bigint, bigint] = [0n, 0n];
    for (const [act, charge, dollars] of order) {
      if (act === 'void') {
        await billing.voidInvoice({ tenantId, invoiceId: invoice.id }, operator);
        isVoided = true;
        continue;
      }
      const named = { tenantId, transactionId: charges[charge]!.id, amountNanoUsd: dollars * usd };
      const refund = billing.refundTransaction({ ...named, requestId: uuidv7(), description: 'Sorry' }, operator);
      const paidDollars = [isVoided ? 3n : 4n, isVoided ? 0n : 5n][charge]!;
      if (refunded[charge] + dollars > paidDollars) {
        await expect(refund).rejects.toMatchObject({ reason: ErrorReason.CONFLICT });
      } else {
        await refund;
        refunded[charge] += dollars;
      }
    }
    const given = (refunded[0] > 3n ? refunded[0] - 3n : 0n) + refunded[1];
    const { rows } = await deps.database.pool.query(
      'select receivable, wallet, revenue, granted_credit from accounts where tenant_id = $1',
      [tenantId],
    );
    const dollars = Object.values(rows[0]).map((nanoUsd) => BigInt(nanoUsd as string) / usd);
    const all = refunded[0] + refunded[1];
    expect(dollars, order.join(' then ')).toEqual([0n, -all, -(3n + given - all), given]);
  }
  await sound(started);
});

test('an invoice is due by the terms of the plan at its end, though that was made while others became final', async () => {
  await using started = await startTestBilling();
  const { billing, deps, database } = started;
  const [first, other] = [person(), person()];
  for (const { tenantId } of [first, other]) {
    await billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: usd })] }, service);
  }
  await toNextMonth(started, 2 * hourMs);
  const busy = new pg.Client({ connectionString: database.url });
  await busy.connect();
  await busy.query('begin');
  await busy.query('select from billing.accounts where tenant_id = $1 for update', [first.tenantId]);
  const finalizing = finalizeInvoices(deps);
  await waitFor(async () => (await lockWaiters({ database })) === 1, {
    description: 'the busy organization to be waited for',
  });
  const plan = { code: 'patient', name: 'Patient', paygEnabled: true, paymentTermsDays: 45 };
  await billing.putPlan({ plan }, operator);
  await billing.assignPlan({ tenantId: other.tenantId, planCode: plan.code }, operator);
  await busy.query('commit');
  await busy.end();
  expect(await finalizing).toBe(2);
  const [invoice] = (await billing.listInvoices({}, as(other))).invoices;
  expect(Date.parse(invoice!.dueDate) - timestampMs(invoice!.issuedAt!)).toBeGreaterThan(44 * dayMs);
});

test('an organization for which a worker fails holds up no other, and the run still counts as failed', async () => {
  await using started = await startTestBilling();
  const { billing, deps } = started;
  const [broken, whole] = [person(), person()];
  const events = [broken, whole].map(({ tenantId }) => usageEvent({ tenantId, costNanoUsd: 4n * usd }));
  await billing.charge({ events }, service);
  const plan = { code: 'team', name: 'Team', paygEnabled: true, included: { monthlyCreditNanoUsd: 5n * usd } };
  await billing.putPlan({ plan }, operator);
  for (const { tenantId } of [broken, whole]) await billing.assignPlan({ tenantId, planCode: 'team' }, operator);
  const owner = new pg.Client({ connectionString: started.database.url });
  await owner.connect();
  const { rows } = await owner.query("select format('tenant_id <> %L', $1::text) as rule", [broken.tenantId]);
  await owner.query(`alter table billing.accounts add check (${rows[0].rule}) not valid`);
  await owner.end();
  await toNextMonth(started, 2 * hourMs);
  await expect(finalizeInvoices(deps)).rejects.toThrow('1 of 2');
  const { invoices } = await billing.listInvoices({ status: InvoiceStatus.FINALIZED }, as(whole));
  expect(invoices).toHaveLength(1);
  await expect(grantMonthlyCredit(deps)).rejects.toThrow('1 of 2');
  expect((await billing.getWallet({}, as(whole))).wallet!.balanceNanoUsd).toBe(5n * usd);
});

test('a run whose database goes away ends with the first organization that finds it so', async () => {
  await using made = await createTestDatabase();
  await using postgres = await startPostgresProxy(made.url);
  const { logger, lines } = logCollector('info');
  const database = await openServiceDatabase({ service: 'billing', connection: postgres.url, entities: [], logger });
  let tried = 0;
  const rows = Array.from({ length: 5 }, () => ({ tenant_id: uuidv7() }));
  const run = eachOrganization({ database, logger }, rows, async (sql) => {
    tried += 1;
    if (tried === 2) await postgres.set({ kind: 'reset' });
    await sql.query('select 1');
    return 1;
  });
  await expect(run).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
  expect([tried, lines]).toEqual([2, []]);
  await database.close();
});
