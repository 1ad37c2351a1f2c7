import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { uuidv7 } from '#shared/ids.ts';
import { paymentSignature, sound, toNextMonth } from '../../../../services/billing/fixtures/test-billing.ts';
import { lockAccount } from '../../../../services/billing/ledger/accounts.ts';
import { buyCredit } from '../../../../services/billing/ledger/credit.ts';
import { lockAndFindPayment, savePayment } from '../../../../services/billing/ledger/payments.ts';
import { finalizeInvoices } from '../../../../services/billing/workers/finalize-invoices.ts';
import { forgetPaymentEvents } from '../../../../services/billing/workers/forget-payment-events.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import { type Answer, type BillingEdge, startBillingEdge } from '../../../fixtures/billing-edge.ts';

let edge: BillingEdge;
// A new one for each test, so that none depends on another.
beforeEach(async () => {
  edge = await startBillingEdge();
});
afterEach(() => edge[Symbol.asyncDispose]());

const receive = async (body: string, header = paymentSignature(body)) =>
  edge.call('POST', '/webhooks/payments', '', body, { 'stripe-signature': header });
const balance = async () =>
  ((await edge.call('GET', '/billing/wallet', 'owner')).json as { balance_usd: number }).balance_usd;
const isDuplicate = ({ json }: Answer) => (json as { duplicate: boolean }).duplicate;

/** A payment of this many cents, as the provider reports it. */
const payment = (id: string, cents: unknown = 1_050, currency = 'usd') =>
  JSON.stringify({
    id,
    type: 'payment_intent.succeeded',
    data: { object: { id: `pi_${id}`, currency, amount_received: cents, metadata: { tenant_id: edge.tenantId } } },
  });

test('a payment is booked once, however often and simultaneously it is reported', async () => {
  expect((await receive(payment('evt_1'))).json).toEqual({ received: true, duplicate: false });
  expect((await receive(payment('evt_1'))).json).toEqual({ received: true, duplicate: true });
  const rivals = await Promise.all(Array.from({ length: 10 }, () => receive(payment('evt_2'))));
  expect(rivals.filter((answer) => !isDuplicate(answer))).toHaveLength(1);
  expect(await balance()).toBe(21);
});

test('a payment for an unknown organization leaves nothing behind, and is booked when it is sent again and the organization is known', async () => {
  const { strangers, deps } = edge.billing;
  const accounts = async () =>
    (await deps.database.pool.query<{ count: string }>('select count(*) from accounts')).rows[0]!.count;
  const stranger = uuidv7();
  const foreign = payment('evt_stranger').replaceAll(edge.tenantId, stranger);
  const before = await accounts();
  strangers.add(stranger);
  expect((await receive(foreign)).json).toEqual({ received: true, duplicate: false });
  expect(await accounts()).toBe(before);
  strangers.clear();
  expect((await receive(foreign)).json).toEqual({ received: true, duplicate: false });
  expect(await accounts()).not.toBe(before);
});

test('a payment whose signature is invalid, old or of a time to come is refused and not booked', async () => {
  const body = payment('evt_9');
  const now = Math.floor(Date.now() / 1000);
  expect((await edge.call('POST', '/webhooks/payments', '', body)).status).toBe(400);
  for (const header of [
    't=1,v1=00',
    paymentSignature(body, now, 'another secret'),
    paymentSignature(body, now - 3_600),
    paymentSignature(body, now + 3_600),
    paymentSignature(payment('evt_3')),
  ]) {
    expect((await receive(body, header)).status, header).toBe(400);
  }
  expect(await balance()).toBe(0);
});

test('requests by anyone without the secret are refused without using Postgres, which calls need', async () => {
  const { pool } = edge.billing.deps.database;
  const taken = await Promise.all(Array.from({ length: pool.options.max }, () => pool.connect()));
  const body = payment('evt_10');
  const answers = [await receive(body, paymentSignature(body, undefined, 'another secret')), await receive(body)];
  for (const client of taken) client.release();
  expect(answers.map(({ status }) => status)).toEqual([400, 503]);
  expect((await receive(body)).status).toBe(200);
});

test('a payment of no amount, or in another currency, is accepted, or it would be sent forever, and books nothing', async () => {
  for (const [index, cents] of [0, -5, 1.5, '7', null].entries()) {
    expect((await receive(payment(`evt_odd_${index}`, cents))).status).toBe(200);
  }
  expect((await receive(payment('evt_yen', 1_050, 'jpy'))).status).toBe(200);
  expect(await balance()).toBe(0);
});

test('money that came in for an organization and cannot be booked is logged as an error and counted, and what is not a payment is not', async () => {
  const { deps, registry } = edge.billing;
  const error = vi.spyOn(deps.logger, 'error');
  const counted = async () => /^gateway_unbooked_payments_total (\d+)$/m.exec(await registry.metrics())?.[1];
  await receive(payment('evt_nothing', 0));
  await receive(payment('evt_elsewhere', 1_050, 'eur').replaceAll('tenant_id', 'shop'));
  await receive(payment('evt_blank').replace(edge.tenantId, ''));
  await receive(payment('evt_failed', 1_050, 'eur').replace('succeeded', 'payment_failed'));
  expect(error).not.toHaveBeenCalled();
  expect(await counted()).toBe('0');
  await receive(payment('evt_euros', 1_050, 'eur'));
  for (let times = 0; times < 2; times += 1) await receive(payment('evt_too_much', 100_000_000_001));
  await receive(payment('evt_named').replace(edge.tenantId, 'Second Ltd'));
  expect(await counted()).toBe('3');
  const { tenantId } = edge;
  expect(error.mock.calls.map(([fields]) => fields)).toEqual(
    [
      { eventId: 'evt_euros', paymentId: 'pi_evt_euros', tenantId, amount: 1_050, currency: 'eur' },
      { eventId: 'evt_too_much', paymentId: 'pi_evt_too_much', tenantId, amount: 100_000_000_001, currency: 'usd' },
      { eventId: 'evt_named', paymentId: 'pi_evt_named', tenantId: 'Second Ltd', amount: 1_050, currency: 'usd' },
    ].map((fields) => ({ provider: 'stripe', ...fields })),
  );
});

test("an event of another account at the provider, as of a connected one, which may be a test there, moves nobody's credit; a payment is logged and counted", async () => {
  const { deps, registry } = edge.billing;
  const error = vi.spyOn(deps.logger, 'error');
  const elsewhere = (event: string) => JSON.stringify({ ...JSON.parse(event), account: 'acct_1', livemode: false });
  await receive(payment('evt_1', 1_000));
  for (const event of [payment('evt_2', 99_999_900), refund('evt_3', 'evt_1', 1_000)]) {
    expect((await receive(elsewhere(event))).status).toBe(200);
  }
  expect(await balance()).toBe(10);
  const { tenantId } = edge;
  const fields = { eventId: 'evt_2', paymentId: 'pi_evt_2', tenantId, amount: 99_999_900, currency: 'usd' };
  expect(error.mock.calls.map(([logged]) => logged)).toEqual([{ provider: 'stripe', ...fields, account: 'acct_1' }]);
  expect(await registry.metrics()).toMatch(/^gateway_unbooked_payments_total 1$/m);
});

test('money that cannot be booked is logged and counted when the provider repeats an event, though whoever took it first failed before it said so', async () => {
  const { deps, registry } = edge.billing;
  const error = vi.spyOn(deps.logger, 'error').mockImplementationOnce(() => {
    throw new Error('It died here.');
  });
  const euros = payment('evt_euros', 1_050, 'eur');
  expect((await receive(euros)).status).toBe(500);
  const repeats = [await receive(euros), await receive(euros)];
  expect(repeats.map(isDuplicate)).toEqual([false, true]);
  const told = error.mock.calls.filter(([fields]) => (fields as { eventId?: string }).eventId === 'evt_euros');
  expect(told).toHaveLength(2);
  expect(await registry.metrics()).toMatch(/^gateway_unbooked_payments_total 1$/m);
});

test('the log says which payment was not booked, so that nobody books one twice of which the provider sends two events', async () => {
  const error = vi.spyOn(edge.billing.deps.logger, 'error');
  const stranger = uuidv7();
  edge.billing.strangers.add(stranger);
  for (const tenantId of [stranger, 'Second Ltd']) {
    const intent = payment('evt_intent').replace(edge.tenantId, tenantId);
    const session = {
      id: 'cs_1',
      payment_intent: 'pi_evt_intent',
      payment_status: 'paid',
      currency: 'usd',
      amount_total: 1_050,
      metadata: { tenant_id: tenantId },
    };
    await receive(intent);
    await receive(JSON.stringify({ id: 'evt_session', type: 'checkout.session.completed', data: { object: session } }));
  }
  expect(error.mock.calls.map(([fields]) => (fields as { paymentId?: string }).paymentId)).toEqual(
    Array(4).fill('pi_evt_intent'),
  );
});

test('a payment that comes in without PAYMENT_WEBHOOK_SECRET is not found, and the log names the variable', async () => {
  (edge.billing.deps.paymentProviders as Map<string, unknown>).clear();
  const info = vi.spyOn(edge.billing.deps.logger, 'info');
  expect((await receive(payment('evt_early'))).status).toBe(404);
  const [fields] = info.mock.calls.find(([, message]) => message === 'No such payment provider.')!;
  expect(fields).toMatchObject({ internal: expect.stringMatching(/^PAYMENT_WEBHOOK_SECRET is not set/) });
});

test('a payment is booked once, though both its checkout session and its payment intent report it, in any order and at once', async () => {
  const tell = async (id: string, type: string, fields: object) => {
    const object = { currency: 'usd', metadata: { tenant_id: edge.tenantId }, ...fields };
    const body = JSON.stringify({ id, type, account: null, data: { object } });
    return (await receive(body)).json as { duplicate: boolean };
  };
  const intent = (n: number) =>
    tell(`evt_intent_${n}`, 'payment_intent.succeeded', { id: `pi_both_${n}`, amount_received: 700 });
  const session = (n: number, type = 'completed', paymentStatus = 'paid') =>
    tell(`evt_session_${type}_${n}`, `checkout.session.${type}`, {
      id: `cs_both_${n}`,
      payment_intent: `pi_both_${n}`,
      payment_status: paymentStatus,
      amount_total: 700,
    });
  expect([await intent(1), await session(1)].map(({ duplicate }) => duplicate)).toEqual([false, true]);
  expect([await session(2), await intent(2)].map(({ duplicate }) => duplicate)).toEqual([false, true]);
  const rivals = await Promise.all([intent(3), session(3), intent(3), session(3)]);
  expect(rivals.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
  // A bank debit: the session completes before the money has arrived.
  await session(4, 'completed', 'unpaid');
  expect(await balance()).toBe(21);
  await session(4, 'async_payment_succeeded');
  expect(await balance()).toBe(28);
  // Without an id that can be stored, each is known by its event.
  for (const event of ['evt_5', 'evt_6', 'evt_6']) {
    await tell(event, 'payment_intent.succeeded', { id: 'pi_\0', amount_received: 700 });
  }
  expect(await balance()).toBe(42);
});

/** A refund of an earlier payment, as the provider reports it. */
const refund = (event: string, of: string, cents: number, status = 'succeeded', type = 'refund.created') =>
  JSON.stringify({
    id: event,
    type,
    data: { object: { id: `re_${of}`, payment_intent: `pi_${of}`, currency: 'usd', amount: cents, status } },
  });
const dispute = (event: string, of: string, cents: number, funds: 'withdrawn' | 'reinstated', more: object = {}) => {
  const status = funds === 'withdrawn' ? 'needs_response' : 'won';
  const object = { id: `du_${of}`, payment_intent: `pi_${of}`, currency: 'usd', amount: cents, status, ...more };
  return JSON.stringify({ id: event, type: `charge.dispute.funds_${funds}`, data: { object } });
};
const movements = async () =>
  (
    (await edge.call('GET', '/billing/documents/transactions', 'owner')).json as {
      data: { type: string; amount_usd: number; description: string }[];
    }
  ).data.map(({ type, amount_usd, description }) => [type, amount_usd, description]);

test('a refund takes back the credit that its payment bought, once, whichever of its events tell of it and however often', async () => {
  await receive(payment('evt_1', 5_000));
  const told = [
    refund('evt_2', 'evt_1', 2_000, 'pending'),
    refund('evt_3', 'evt_1', 2_000, 'succeeded', 'refund.updated'),
  ];
  for (const event of [...told, ...told]) expect((await receive(event)).status).toBe(200);
  await Promise.all(
    [...told, refund('evt_4', 'evt_1', 2_000, 'succeeded', 'charge.refund.updated')].map((event) => receive(event)),
  );
  expect(await movements()).toEqual([
    ['adjustment', -20, 'Refund re_evt_1'],
    ['purchase', 50, 'Payment pi_evt_1'],
  ]);
  // What went back is no gift taken back.
  const { rows } = await edge.billing.deps.database.pool.query('select funding, granted_credit from accounts');
  expect(rows).toEqual([{ funding: 30_000_000_000n, granted_credit: 0n }]);
});

test('a refund that fails is given again, though its failure is told first or at the same time', async () => {
  await receive(payment('evt_1', 5_000));
  await receive(payment('evt_2', 700));
  await receive(payment('evt_3', 300));
  const made = (of: string) => refund(`evt_made_${of}`, of, 200, 'requires_action');
  const failed = (of: string, cents = 200, status = 'failed') =>
    refund(`evt_failed_${of}`, of, cents, status, 'refund.failed');
  await receive(made('evt_1'));
  expect(await balance()).toBe(58);
  // No more than was taken, whatever the later event says.
  for (const event of [failed('evt_1', 250), failed('evt_2', 200, 'canceled'), made('evt_2')]) await receive(event);
  expect(await balance()).toBe(60);
  expect(await movements()).toHaveLength(5);
  await Promise.all([made('evt_3'), failed('evt_3'), made('evt_3'), failed('evt_3')].map((event) => receive(event)));
  expect(await balance()).toBe(60);
  await sound(edge.billing);
});

test('a dispute takes the money with the credit that it bought, below zero where that is spent, and gives it again when it is won', async () => {
  await receive(payment('evt_1', 1_000));
  const organization = `/admin/organizations/${edge.tenantId}`;
  const deducted = { amount_usd: -4, description: 'spent' };
  expect((await edge.call('POST', `${organization}/adjustments`, 'operator', deducted)).status).toBe(201);
  await receive(dispute('evt_2', 'evt_1', 1_000, 'withdrawn'));
  expect(await balance()).toBe(-4);
  await receive(dispute('evt_3', 'evt_1', 1_000, 'reinstated'));
  expect(await balance()).toBe(6);
  expect((await movements()).slice(0, 2)).toEqual([
    ['adjustment', 10, 'Dispute du_evt_1, given again'],
    ['adjustment', -10, 'Dispute du_evt_1'],
  ]);
  const { data } = (await edge.call('GET', '/billing/documents/transactions', 'owner')).json as {
    data: { id: string; reverses_id: string | null }[];
  };
  const [given, taken, , bought] = data;
  expect([given!.reverses_id, taken!.reverses_id]).toEqual([taken!.id, bought!.id]);
  await sound(edge.billing);
});

/** What a dispute moved on the account at the provider, in cents of a currency. */
const moved = (currency: string, ...cents: number[]) => ({
  status: 'lost',
  balance_transactions: cents.map((amount) => ({ currency, amount })),
});

test('a dispute that is lost but for what had been refunded gives only that again, in whichever order its events come', async () => {
  const part = { evt_1: moved('usd', -1_000, 300), evt_2: moved('eur', -900, 270), evt_3: moved('usd', -1_000, 300) };
  for (const [of, more] of Object.entries(part)) {
    await receive(payment(of, 1_000));
    await receive(refund(`evt_refund_${of}`, of, 300));
    const told = [
      dispute(`evt_withdrawn_${of}`, of, 1_000, 'withdrawn'),
      dispute(`evt_reinstated_${of}`, of, 1_000, 'reinstated', more),
    ];
    for (const event of of === 'evt_3' ? told.toReversed() : told) await receive(event);
    expect(await balance(), of).toBe(0);
    expect((await movements()).slice(0, 2)).toEqual([
      ['adjustment', 3, `Dispute du_${of}, given again`],
      ['adjustment', -10, `Dispute du_${of}`],
    ]);
  }
  await sound(edge.billing);
});

test('a dispute that is won gives all of it again, whatever the exchange rate was by then, and so does one of which nothing tells a part', async () => {
  await receive(payment('evt_1', 1_000));
  await receive(dispute('evt_2', 'evt_1', 1_000, 'withdrawn', moved('eur', -900)));
  await receive(dispute('evt_3', 'evt_1', 1_000, 'reinstated', { ...moved('eur', -900, 880), status: 'won' }));
  expect(await balance()).toBe(10);
  await receive(payment('evt_4', 1_000));
  for (const funds of ['withdrawn', 'reinstated'] as const) {
    await receive(dispute(`evt_${funds}`, 'evt_4', 1_000, funds, moved('usd', -1_000)));
  }
  expect(await balance()).toBe(20);
});

test('events of long ago are forgotten, and change nothing when they come again', async () => {
  const { billing } = edge;
  const told = [
    payment('evt_1', 5_000),
    refund('evt_2', 'evt_1', 2_000, 'pending'),
    dispute('evt_3', 'evt_1', 1_000, 'withdrawn'),
    dispute('evt_4', 'evt_1', 1_000, 'reinstated'),
  ];
  for (const event of told) await receive(event);
  const before = await movements();
  expect(await forgetPaymentEvents(billing.deps)).toBe(0);
  billing.travel(91 * 86_400_000);
  expect(await forgetPaymentEvents(billing.deps)).toBe(told.length);
  const nowMs = await billing.deps.databaseNow(billing.deps.database.pool);
  for (const event of told) {
    expect((await receive(event, paymentSignature(event, Math.floor(nowMs / 1_000)))).status).toBe(200);
  }
  expect(await movements()).toEqual(before);
});

test('a refund takes the credit of its own payment before gifts that usage would draw first', async () => {
  await receive(payment('evt_1', 1_000));
  const gift = { amount_usd: 5, source: 'promotion', expires_at: null };
  expect((await edge.call('POST', `/admin/organizations/${edge.tenantId}/credits`, 'operator', gift)).status).toBe(201);
  await receive(refund('evt_2', 'evt_1', 1_000));
  const { lots } = (await edge.call('GET', '/billing/wallet', 'owner')).json as {
    lots: { source: string; remaining_usd: number }[];
  };
  expect(lots.map(({ source, remaining_usd }) => [source, remaining_usd])).toEqual([['promotion', 5]]);
});

test('a refund that is told before its payment takes the credit back as soon as there is some, also if both come at once', async () => {
  await receive(refund('evt_2', 'evt_1', 300));
  expect(await balance()).toBe(0);
  await receive(payment('evt_1', 1_000));
  expect(await balance()).toBe(7);

  const { database, databaseNow } = edge.billing.deps;
  const name = { provider: 'stripe', paymentId: 'pi_evt_at_once' };
  let back: Promise<Answer> | undefined;
  await sqlTransaction(database, async (sql) => {
    expect(await lockAndFindPayment(sql, name)).toBeNull();
    back = receive(refund('evt_back', 'evt_at_once', 100));
    const waiting = 'select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))';
    const isWaiting = async () => (await sql.query(waiting)).rowCount === 1;
    await waitFor(isWaiting, { description: 'the refund, which waits for its payment' });
    const nowMs = await databaseNow(sql);
    const bought = { amountNanoUsd: 1_000_000_000n, description: 'Payment' };
    const booked = await buyCredit(sql, await lockAccount(sql, edge.tenantId), bought, nowMs);
    await savePayment(sql, name, { ...bought, ...booked, tenantId: edge.tenantId }, nowMs);
  });
  await back;
  expect(await balance()).toBe(7);
});

test('refunds of payments for something else, without an amount or with one of too much, or in another currency, are accepted and change nothing', async () => {
  await receive(payment('evt_1', 1_000));
  const own = refund('evt_2', 'evt_1', 300);
  const odd = [
    refund('evt_3', 'of the shop', 300),
    own.replace('"amount":300', '"amount":0'),
    own.replace('"amount":300', `"amount":${Number.MAX_SAFE_INTEGER}`),
    own.replace('"usd"', '"jpy"'),
    own.replace('"pi_evt_1"', 'null'),
    own.replace('"succeeded"', '7'),
    own.replace('"re_evt_1"', 'null'),
  ];
  for (const [index, event] of odd.entries()) {
    expect((await receive(event.replace('evt_2', `evt_odd_${index}`))).status).toBe(200);
  }
  expect(await balance()).toBe(10);
});

const credits = (body: object) =>
  edge.call('POST', `${edge.organization}/credits`, 'operator', { amount_usd: 10.5, source: 'purchase', ...body });

test('a payment that an operator books by its id is booked once, whoever else tells of it, and what went back of it takes its credit', async () => {
  await receive(refund('evt_1', 'evt_lost', 200));
  const granted = await credits({ payment_id: 'pi_evt_lost' });
  expect(granted.json).toMatchObject({ source: 'purchase', granted_usd: 10.5 });
  expect(isDuplicate(await receive(payment('evt_lost')))).toBe(true);
  await receive(dispute('evt_2', 'evt_lost', 300, 'withdrawn'));
  expect(await movements()).toEqual([
    ['adjustment', -3, 'Dispute du_evt_lost'],
    ['adjustment', -2, 'Refund re_evt_lost'],
    ['purchase', 10.5, 'Payment pi_evt_lost'],
  ]);
  await sound(edge.billing);
});

test('a refund in another currency of a payment that an operator booked in USD is logged and counted, and one of a payment elsewhere is not', async () => {
  const { deps, registry } = edge.billing;
  const error = vi.spyOn(deps.logger, 'error');
  await credits({ payment_id: 'pi_evt_euros' });
  const refunds = [refund('evt_1', 'evt_euros', 300), refund('evt_2', 'of the shop', 300)];
  for (const event of refunds) expect((await receive(event.replace('"usd"', '"eur"'))).status).toBe(200);
  const returned = { paymentId: 'pi_evt_euros', returnId: 're_evt_euros', amount: 300, currency: 'eur' };
  expect(error.mock.calls.map(([fields]) => fields)).toEqual([{ provider: 'stripe', eventId: 'evt_1', ...returned }]);
  expect(await registry.metrics()).toMatch(/^gateway_unbooked_payments_total 1$/m);
  expect(await balance()).toBe(10.5);
});

test('a payment of which the provider tells another amount or organization than an operator booked is logged and counted', async () => {
  const { deps, registry } = edge.billing;
  const error = vi.spyOn(deps.logger, 'error');
  const { tenantId } = edge;
  const other = uuidv7();
  for (const id of ['evt_right', 'evt_less', 'evt_other']) await credits({ payment_id: `pi_${id}` });
  const events = [payment('evt_right'), payment('evt_less', 10_500), payment('evt_other').replace(tenantId, other)];
  for (const event of [...events, ...events]) expect(isDuplicate(await receive(event))).toBe(true);
  const told = (eventId: string, fields: object) => ({
    ...{ provider: 'stripe', eventId, paymentId: `pi_${eventId}`, tenantId, amountUsd: 10.5 },
    ...{ bookedTenantId: tenantId, bookedAmountUsd: 10.5 },
    ...fields,
  });
  const logged = error.mock.calls.map(([fields]) => JSON.parse(JSON.stringify(fields)));
  expect(logged).toEqual([told('evt_less', { amountUsd: 105 }), told('evt_other', { tenantId: other })]);
  expect(await registry.metrics()).toMatch(/^gateway_unbooked_payments_total 2$/m);
  expect(await balance()).toBe(31.5);
});

test('a payment that its provider has told of cannot be booked by an operator as well, not even at the same time', async () => {
  await receive(payment('evt_told'));
  const answer = await credits({ payment_id: 'pi_evt_told' });
  expect([answer.status, answer.text]).toEqual([
    409,
    expect.stringContaining('The payment pi_evt_told is booked already.'),
  ]);
  for (let n = 0; n < 10; n += 1) {
    const [by, told] = await Promise.all([credits({ payment_id: `pi_evt_${n}` }), receive(payment(`evt_${n}`))]);
    expect([by.status, isDuplicate(told)]).toEqual(by.status === 201 ? [201, true] : [409, false]);
  }
  expect(await balance()).toBe(11 * 10.5);
  await sound(edge.billing);
});

test('an operator who repeats a purchase by a payment gets the same answer, and is told what no payment is or nobody pays for', async () => {
  const repeat = { 'idempotency-key': 'again' };
  const body = { amount_usd: 5, source: 'purchase', payment_id: 'pi_1' };
  const answers = [1, 2].map(() => edge.call('POST', `${edge.organization}/credits`, 'operator', body, repeat));
  const [first, second] = await Promise.all(answers);
  expect([first!.status, second!.json]).toEqual([201, first!.json]);
  for (const odd of [{ payment_id: 'pi_ 1' }, { payment_id: '' }, { payment_id: 'pi_2', source: 'promotion' }]) {
    const refused = await credits(odd);
    expect([refused.status, (refused.json as { error: { param: string } }).error.param]).toEqual([400, 'payment_id']);
  }
  expect(await balance()).toBe(5);
});

test('what stands beside a payment at the provider, such as its charge, is not taken for it: its event would book it again', async () => {
  for (const other of ['ch_3Pq', 'py_3Pq', 're_3Pq', 'du_1Pq', 'in_1Pq', 'txn_3Pq', 'cus_Qx']) {
    const refused = await credits({ payment_id: other });
    expect([refused.status, refused.text], other).toEqual([400, expect.stringContaining('begins with `pi_`')]);
  }
  expect(await balance()).toBe(0);
});

test('an Idempotency-Key of days ago is refused with another payment, of which nothing would be booked', async () => {
  const grant = (id: string) => {
    const body = { amount_usd: 5, source: 'purchase', description: 'Top-up', payment_id: id };
    return edge.call('POST', `${edge.organization}/credits`, 'operator', body, { 'idempotency-key': 'top-up' });
  };
  const first = await grant('pi_1');
  await edge.billing.travel(3 * 86_400_000);
  const [other, again] = [await grant('pi_2'), await grant('pi_1')];
  expect([first.status, again.json]).toEqual([201, first.json]);
  expect([other.status, (other.json as { error: { code: string } }).error.code]).toEqual([
    400,
    'idempotency_key_reused',
  ]);
  expect(await balance()).toBe(5);
});

test('an invoice that an operator marks as paid by a payment has that payment, which is not booked again', async () => {
  await edge.charge();
  await toNextMonth(edge.billing, 2 * 3_600_000);
  await finalizeInvoices(edge.billing.deps);
  const nowMs = await edge.billing.deps.databaseNow(edge.billing.deps.database.pool);
  const tell = (body: string) => receive(body, paymentSignature(body, Math.floor(nowMs / 1_000)));
  const { data } = (await edge.call('GET', '/billing/documents/invoices', 'owner')).json as { data: { id: string }[] };
  const pay = (id: string) =>
    edge.call('POST', `${edge.organization}/invoices/${data[0]!.id}/pay`, 'operator', { payment_id: id });
  await tell(payment('evt_credit', 100));
  expect((await pay('pi_evt_credit')).status).toBe(409);
  const [paid, repeat] = [await pay('pi_evt_invoice'), await pay('pi_evt_invoice')];
  expect([paid.json, repeat.json]).toMatchObject([{ payment_status: 'paid' }, { payment_status: 'paid' }]);
  expect((await pay('pi_another')).status).toBe(409);
  expect(isDuplicate(await tell(payment('evt_invoice', 124)))).toBe(true);
  await tell(refund('evt_1', 'evt_invoice', 124));
  expect((await movements()).slice(0, 4)).toEqual([
    ['adjustment', -1.24, 'Refund re_evt_invoice'],
    ['purchase', 0.00543, 'Payment pi_evt_invoice'],
    ['purchase', 1.23457, 'Payment pi_evt_invoice'],
    ['purchase', 1, 'Payment pi_evt_credit'],
  ]);
  await sound(edge.billing);
});
