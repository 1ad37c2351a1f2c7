import { createHmac } from 'node:crypto';
import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { uuidv7 } from '#shared/ids.ts';
import { as, person, service, usageEvent, webhookSecret } from '../../../../services/billing/fixtures/test-billing.ts';
import { type BillingEdge, startBillingEdge } from '../../../fixtures/billing-edge.ts';

let edge: BillingEdge;
// One for each, so that none stands on what another did.
beforeEach(async () => {
  edge = await startBillingEdge();
});
afterEach(() => edge[Symbol.asyncDispose]());

const call = (...words: Parameters<BillingEdge['call']>) => edge.call(...words);
const organization = () => `/admin/organizations/${edge.tenantId}`;

/** Credit of the organization, as an operator enters what it paid. */
const purchase = (amountUsd: number) =>
  call('POST', `${organization()}/credits`, 'operator', { amount_usd: amountUsd, source: 'purchase' });

/** One call of the organization, charged: 1.23457 USD. */
async function charge() {
  const { tenantId, userId } = edge;
  const usage = { inputTokens: 1_234_567n, outputTokens: 1n, costNanoUsd: 1_234_567_000n + 3_000n };
  const event = usageEvent({ tenantId, userId, costNanoUsd: usage.costNanoUsd, usage });
  await edge.billing.billing.charge({ events: [event] }, service);
  return event;
}

test('a new organization has the default plan, an empty wallet and no commitment', async () => {
  expect((await call('GET', '/plan/current', 'member')).json).toMatchObject({
    code: 'developer',
    name: 'Developer',
    payg_enabled: true,
    rate_limits: { requests_per_minute: 600, tokens_per_minute: 200_000, concurrent_requests: 100 },
    included: { monthly_credit_usd: 0, features: [] },
  });
  expect((await call('GET', '/billing/wallet', 'owner')).json).toEqual({ balance_usd: 0, currency: 'USD', lots: [] });
  const commitment = await call('GET', '/billing/commitment', 'owner');
  expect([commitment.status, commitment.text]).toEqual([200, 'null']);
});

test('money is for admins and owners, by key as by session; each user has their own limit', async () => {
  for (const path of [
    '/billing/wallet',
    '/billing/commitment',
    '/billing/documents/invoices',
    `/billing/documents/invoices/${uuidv7()}`,
    `/billing/documents/invoices/${uuidv7()}/transactions`,
    '/billing/documents/transactions',
  ]) {
    expect((await call('GET', path, 'member')).json, path).toMatchObject({ error: { code: 'insufficient_role' } });
    const scope = path.includes('documents') ? 'billing:read_invoices' : 'billing:read_current';
    expect((await call('GET', path, `key:${scope}`)).json, path).toMatchObject({
      error: { code: 'insufficient_role' },
    });
    expect((await call('GET', path, 'key:profile:read')).json, path).toMatchObject({
      error: { code: 'missing_scope' },
    });
  }
  for (const method of ['PUT', 'DELETE'] as const) {
    const body = method === 'PUT' ? { limit_usd: 1 } : undefined;
    const refused = await call(method, '/billing/payg-spend-cap', 'key:budgets:update_own', body);
    expect([refused.status, (refused.json as { error: { code: string } }).error.code]).toEqual([
      403,
      'insufficient_role',
    ]);
  }
  expect((await call('PUT', '/profile/cost-limit', 'key:budgets:update_own', { limit_usd: 2.5 })).json).toMatchObject({
    limit_usd: 2.5,
    period: 'day',
    spent_usd: 0,
    remaining_usd: 2.5,
  });
  expect((await call('DELETE', '/profile/cost-limit', 'member')).status).toBe(204);
  expect((await call('GET', '/profile/cost-limit', 'key:budgets:read_own')).json).toMatchObject({ limit_usd: null });
  const redeem = await call('POST', '/billing/coupons/redeem', 'key:budgets:update_own', { code: 'WELCOME' });
  expect(redeem.json).toMatchObject({ error: { code: 'endpoint_not_allowed' } });
});

test('bad amounts are 400 with the field, and change nothing', async () => {
  for (const amount of [-1, 1e10, 0.1234567891, 1e-10, '5', null, true, [1], {}]) {
    for (const path of ['/billing/payg-spend-cap', '/profile/cost-limit']) {
      const { status, json } = await call('PUT', path, 'owner', { limit_usd: amount });
      expect([status, (json as { error: { param: string } }).error.param], JSON.stringify(amount)).toEqual([
        400,
        'limit_usd',
      ]);
    }
  }
  for (const body of ['{"limit_usd": NaN}', '{"limit_usd": 1e400}', '{}', '{"limit_usd":1,"spent_usd":0}', '[]']) {
    expect((await call('PUT', '/billing/payg-spend-cap', 'owner', body)).status, body).toBe(400);
  }
  for (const amount of [0, -5, 2e9, '1']) {
    expect((await call('POST', `${organization()}/credits`, 'operator', { amount_usd: amount })).status).toBe(400);
  }
  expect((await call('GET', '/billing/payg-spend-cap', 'member')).json).toMatchObject({
    limit_usd: null,
    spent_usd: 0,
  });
  expect((await call('GET', '/billing/wallet', 'owner')).json).toMatchObject({ balance_usd: 0 });
});

test('amounts are exact decimals, and a repeat under an Idempotency-Key is the same grant', async () => {
  const body = { amount_usd: 12.000000345, source: 'purchase', description: 'for trying' };
  const key = { 'idempotency-key': 'grant-1' };
  const first = await call('POST', `${organization()}/credits`, 'operator', body, key);
  expect(first.status, first.text).toBe(201);
  expect(first.text).toContain('"granted_usd":12.000000345');
  expect((await call('POST', `${organization()}/credits`, 'operator', body, key)).json).toEqual(first.json);
  const other = await call('POST', `${organization()}/credits`, 'operator', { ...body, amount_usd: 13 }, key);
  expect([other.status, (other.json as { error: { code: string } }).error.code]).toEqual([
    400,
    'idempotency_key_reused',
  ]);
  expect((await call('GET', '/billing/wallet', 'owner')).text).toContain('"balance_usd":12.000000345');
  const unknown = await call('POST', `/admin/organizations/${uuidv7()}/credits`, 'operator', body);
  expect(unknown.status).toBe(404);
  expect((await call('POST', `${organization()}/credits`, 'owner', body)).status).toBe(403);
});

test('a charge shows in the draft invoice with exact line items, its transactions and its PDF', async () => {
  await purchase(12.000000345);
  const event = await charge();
  const { data } = (await call('GET', '/billing/documents/invoices?status=draft', 'owner')).json as {
    data: { id: string }[];
  };
  const path = `/billing/documents/invoices/${data[0]!.id}`;
  const invoice = await call('GET', path, 'owner');
  expect(invoice.json).toMatchObject({
    number: null,
    status: 'draft',
    payment_status: 'pending',
    subtotal_usd: 1.23457,
    credits_usd: 1.23457,
    total_usd: 0,
    amount_due_usd: 0,
    line_items: [
      { unit: 'million_input_tokens', quantity: 1.234567, unit_price_usd: 1, amount_usd: 1.234567 },
      { unit: 'million_output_tokens', quantity: 0.000001, unit_price_usd: 3, amount_usd: 0.000003 },
    ],
  });
  const { data: transactions } = (await call('GET', `${path}/transactions`, 'owner')).json as { data: object[] };
  expect(transactions).toMatchObject([
    {
      type: 'usage',
      amount_usd: -1.23457,
      description: event.model,
      usage_event_id: event.id,
      invoice_id: data[0]!.id,
    },
  ]);
  const pdf = await call('GET', `${path}?format=pdf`, 'owner');
  expect(pdf.headers['content-type']).toBe('application/pdf');
  expect(pdf.raw.subarray(0, 5).toString()).toBe('%PDF-');
  for (const id of [uuidv7(), 'x', '%20']) {
    expect((await call('GET', `/billing/documents/invoices/${id}`, 'owner')).status).toBe(404);
  }
  const grants = await call('GET', '/billing/documents/transactions?type=purchase', 'owner');
  expect(grants.json).toMatchObject({
    data: [{ type: 'purchase', amount_usd: 12.000000345 }],
    pagination: { total: 1 },
  });
  for (const query of [
    'start_date=2026-02-31',
    'start_date=x',
    'type=theft',
    'start_date=2026-02-02&end_date=2026-02-01',
  ]) {
    expect((await call('GET', `/billing/documents/transactions?${query}`, 'owner')).status, query).toBe(400);
  }
});

test('invoices are narrowed to the months of which some day is asked for, for operators too', async () => {
  type Listed = { data: { id: string; period_start: string; period_end: string }[] };
  await charge();
  const [invoice] = ((await call('GET', '/billing/documents/invoices', 'owner')).json as Listed).data;
  const dayOf = (time: number) => new Date(time).toISOString().slice(0, 10);
  const [start, end] = [Date.parse(invoice!.period_start), Date.parse(invoice!.period_end)];
  const [before, first, last, behind] = [start - 1, start, end - 1, end].map(dayOf);
  for (const [query, isListed] of [
    [`start_date=${first}&end_date=${last}`, true],
    [`start_date=${last}`, true],
    [`end_date=${first}`, true],
    [`start_date=${last}&end_date=${last}`, true],
    [`start_date=${behind}`, false],
    [`end_date=${before}`, false],
  ] as const) {
    for (const [path, who] of [
      ['/billing/documents', 'owner'],
      [organization(), 'operator'],
    ] as const) {
      const { data } = (await call('GET', `${path}/invoices?${query}`, who)).json as Listed;
      expect([query, data.map(({ id }) => id)]).toEqual([query, isListed ? [invoice!.id] : []]);
    }
  }
});

test('every POST that makes something is done once under its Idempotency-Key, and refuses another body under it', async () => {
  const period = { period_start: '2150-01-01', period_end: '2151-01-01' };
  await charge();
  const { data } = (await call('GET', '/billing/documents/transactions?type=usage', 'owner')).json as {
    data: { id: string }[];
  };
  const posts: [path: string, who: string, body: object, other: object][] = [
    [`${organization()}/credits`, 'operator', { amount_usd: 2 }, { amount_usd: 2, source: 'purchase' }],
    [`${organization()}/credits`, 'operator', { amount_usd: 2 }, { amount_usd: 2, expires_at: '2040-01-01' }],
    [
      `${organization()}/adjustments`,
      'operator',
      { amount_usd: 1, description: 'a' },
      { amount_usd: -1, description: 'a' },
    ],
    [
      `${organization()}/commitments`,
      'operator',
      { amount_usd: 3, ...period },
      { amount_usd: 3, ...period, period_end: '2152-01-01' },
    ],
    [
      `${organization()}/transactions/${data[0]!.id}/refund`,
      'operator',
      { amount_usd: 0.000000001, description: 'b' },
      { description: 'b' },
    ],
    ['/admin/coupons', 'operator', { amount_usd: 4 }, { amount_usd: 4, redemptions_max: 9 }],
    ['/admin/coupons', 'operator', { amount_usd: 4, code: 'ONCE-ONLY' }, { amount_usd: 4, code: 'ONCE-MORE' }],
  ];
  const { code } = (await call('POST', '/admin/coupons', 'operator', { amount_usd: 1 })).json as { code: string };
  posts.push(['/billing/coupons/redeem', 'owner', { code }, { code: 'ONCE-ONLY' }]);
  const counts = async () =>
    Promise.all(
      ['/admin/coupons', '/billing/documents/transactions', `${organization()}/commitments`].map(
        async (path) =>
          (
            (await call('GET', path, path.startsWith('/billing') ? 'owner' : 'operator')).json as {
              pagination: { total: number };
            }
          ).pagination.total,
      ),
    );
  for (const [index, [path, who, body, other]] of posts.entries()) {
    const key = { 'idempotency-key': `once-${index}` };
    const first = await call('POST', path, who, body, key);
    expect(first.status, `${path} ${first.text}`).toBe(201);
    const before = await counts();
    const repeats = await Promise.all(Array.from({ length: 3 }, () => call('POST', path, who, body, key)));
    for (const repeat of repeats) expect([repeat.status, repeat.text]).toEqual([201, first.text]);
    const reused = await call('POST', path, who, other, key);
    expect([reused.status, (reused.json as { error: { code: string } }).error.code], path).toEqual([
      400,
      'idempotency_key_reused',
    ]);
    expect(await counts(), path).toEqual(before);
  }
  // The code of a coupon is answered again, and is kept nowhere.
  const { rows } = await edge.billing.deps.database.pool.query<{ response: Buffer }>(
    'select response from idempotency_keys',
  );
  expect(rows.length).toBeGreaterThanOrEqual(posts.length);
  for (const { response } of rows) expect(response.toString()).not.toMatch(/[0-9A-Z]{7}-[0-9A-Z]{7}/);
});

test('a coupon gives credit once, and what is unknown, spent or tried too often is refused', async () => {
  const made = await call('POST', '/admin/coupons', 'operator', { amount_usd: 5, credit_lifetime_days: 30 });
  expect(made.status, made.text).toBe(201);
  const { code } = made.json as { code: string };
  const redeemed = await call('POST', '/billing/coupons/redeem', 'member', { code: ` ${code.toLowerCase()} ` });
  expect(redeemed.json).toMatchObject({ lot: { source: 'coupon', granted_usd: 5 } });
  // The wallet is not for members.
  expect(redeemed.json).not.toHaveProperty('balance_usd');
  for (const wrong of [code, 'NO-SUCH-CODE']) {
    const { status, json } = await call('POST', '/billing/coupons/redeem', 'owner', { code: wrong });
    expect([status, (json as { error: { code: string } }).error.code]).toEqual([400, 'invalid_code']);
  }
  const listed = (await call('GET', '/admin/coupons', 'operator')).text;
  expect(listed).not.toContain(code);
  let last = 0;
  for (let tries = 0; tries < 25 && last !== 429; tries++) {
    const answer = await call('POST', '/billing/coupons/redeem', 'member', { code: `GUESS-${tries}` });
    last = answer.status;
    if (last === 429) expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
  }
  expect(last).toBe(429);
});

const sign = (body: string, seconds = Math.floor(Date.now() / 1000), secret = webhookSecret) => ({
  'stripe-signature': `t=${seconds},v1=${createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')}`,
});
const receive = (body: string, headers: object) => call('POST', '/webhooks/payments', '', body, headers);
const balance = async () =>
  ((await call('GET', '/billing/wallet', 'owner')).json as { balance_usd: number }).balance_usd;

test('a payment is booked once, when its signature holds and is fresh', async () => {
  const payload = (id: string, cents: unknown = 1_050) =>
    JSON.stringify({
      id,
      type: 'payment_intent.succeeded',
      data: {
        object: { id: `pi_${id}`, currency: 'usd', amount_received: cents, metadata: { tenant_id: edge.tenantId } },
      },
    });
  const before = await balance();

  const body = payload('evt_1');
  expect((await receive(body, sign(body))).json).toEqual({ received: true, duplicate: false });
  expect((await receive(body, sign(body))).json).toEqual({ received: true, duplicate: true });
  const rivals = await Promise.all(Array.from({ length: 10 }, () => receive(payload('evt_2'), sign(payload('evt_2')))));
  expect(rivals.filter(({ json }) => !(json as { duplicate: boolean }).duplicate)).toHaveLength(1);
  expect((await balance()) - before).toBeCloseTo(21, 6);

  // One for an organization which is not known here leaves nothing behind, and is booked when it comes again and is known.
  const { strangers, database } = edge.billing;
  const payment = payload('evt_stranger');
  const accounts = async () => {
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    const { rows } = await client.query('select count(*) from billing.accounts');
    await client.end();
    return rows[0].count;
  };
  const accountsBefore = await accounts();
  const foreign = payment.replaceAll(edge.tenantId, uuidv7());
  strangers.add(JSON.parse(foreign).data.object.metadata.tenant_id);
  expect((await receive(foreign, sign(foreign))).json).toEqual({ received: true, duplicate: false });
  expect(await accounts()).toBe(accountsBefore);
  strangers.clear();
  expect((await receive(foreign, sign(foreign))).json).toEqual({ received: true, duplicate: false });
  expect(await accounts()).not.toBe(accountsBefore);

  for (const headers of [
    {},
    { 'stripe-signature': 't=1,v1=00' },
    sign(body, undefined, 'another secret'),
    sign(body, Math.floor(Date.now() / 1000) - 3_600),
    sign(payload('evt_3')),
  ]) {
    expect((await receive(body.replace('evt_1', 'evt_9'), headers)).status).toBe(400);
  }
  for (const cents of [0, -5, 1.5, '7', null]) {
    const odd = payload(`evt_odd_${String(cents)}`, cents);
    expect((await receive(odd, sign(odd))).status).toBe(200);
  }
  expect((await balance()) - before).toBeCloseTo(21, 6);
});

test('a payment is booked once, though its checkout session and its payment intent both tell of it, in any order and at once', async () => {
  const tell = async (id: string, type: string, fields: object) => {
    const object = { currency: 'usd', metadata: { tenant_id: edge.tenantId }, ...fields };
    const body = JSON.stringify({ id, type, data: { object } });
    return (await receive(body, sign(body))).json as { duplicate: boolean };
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
  const before = await balance();
  expect([await intent(1), await session(1)].map(({ duplicate }) => duplicate)).toEqual([false, true]);
  expect([await session(2), await intent(2)].map(({ duplicate }) => duplicate)).toEqual([false, true]);
  const rivals = await Promise.all([intent(3), session(3), intent(3), session(3)]);
  expect(rivals.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
  // A bank debit: the session completes before the money has come.
  await session(4, 'completed', 'unpaid');
  expect((await balance()) - before).toBeCloseTo(21, 6);
  await session(4, 'async_payment_succeeded');
  expect((await balance()) - before).toBeCloseTo(28, 6);
});

test('a plan says which rate limits are its own, so that whoever replaces it leaves the others to the platform', async () => {
  const plan = { name: 'Open', payg_enabled: true, rate_limits: { requests_per_minute: 7 } };
  const own = { requests_per_minute: 7, tokens_per_minute: null, concurrent_requests: null };
  const platforms = { requests_per_minute: 600, tokens_per_minute: 200_000, concurrent_requests: 100 };
  expect((await call('PUT', '/admin/plans/open', 'operator', plan)).json).toMatchObject({ own_rate_limits: own });
  await call('PUT', '/admin/plans/open-wide', 'operator', { name: 'Wide', payg_enabled: true });
  const { json } = await call('GET', '/admin/plans', 'operator');
  expect((json as { data: unknown[] }).data).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        code: 'open',
        own_rate_limits: own,
        rate_limits: { ...platforms, requests_per_minute: 7 },
      }),
      expect.objectContaining({ code: 'open-wide', own_rate_limits: null, rate_limits: platforms }),
    ]),
  );
});

test('operators put organizations on plans, agree commitments, adjust and refund', async () => {
  const plan = { name: 'Team', payg_enabled: false, monthly_credit_usd: 10, features: ['support'] };
  expect((await call('PUT', '/admin/plans/team', 'operator', plan)).json).toMatchObject({
    code: 'team',
    payg_enabled: false,
  });
  await purchase(12);
  await charge();
  expect((await call('PUT', `${organization()}/plan`, 'operator', { code: 'team' })).status).toBe(200);
  expect((await call('GET', '/plan/current', 'member')).json).toMatchObject({ code: 'team' });
  expect((await call('PUT', `${organization()}/plan`, 'operator', { code: 'none' })).status).toBe(404);

  const agreed = { amount_usd: 100, period_start: '2026-01-01', period_end: '2099-01-01' };
  const commitments = `${organization()}/commitments`;
  expect((await call('POST', commitments, 'operator', agreed)).status).toBe(201);
  expect((await call('POST', commitments, 'operator', agreed)).status).toBe(409);
  expect((await call('GET', '/billing/commitment', 'owner')).json).toMatchObject({
    amount_usd: 100,
    remaining_usd: 100,
  });

  const adjustments = `${organization()}/adjustments`;
  const given = await call('POST', adjustments, 'operator', { amount_usd: 1.5, description: 'sorry' });
  expect(given.json).toMatchObject({ type: 'adjustment', amount_usd: 1.5 });
  expect((await call('POST', adjustments, 'operator', { amount_usd: -1, description: 'too much' })).status).toBe(201);
  expect((await call('POST', adjustments, 'operator', { amount_usd: -1e6, description: 'all' })).status).toBe(409);

  const { data } = (await call('GET', '/billing/documents/transactions?type=usage', 'owner')).json as {
    data: { id: string; amount_usd: number }[];
  };
  const refund = `${organization()}/transactions/${data[0]!.id}/refund`;
  const part = await call('POST', refund, 'operator', { amount_usd: 0.2, description: 'bad answer' });
  expect(part.json).toMatchObject({ type: 'refund', amount_usd: 0.2, reverses_id: data[0]!.id });
  expect((await call('POST', refund, 'operator', { amount_usd: 2, description: 'again' })).status).toBe(409);
  expect((await call('POST', refund, 'operator', { description: 'the rest' })).json).toMatchObject({
    amount_usd: 1.03457,
  });
  expect((await call('POST', refund, 'operator', { description: 'more' })).status).toBe(409);
  // As the portal reads it.
  expect((await call('GET', `${organization()}/account`, 'operator')).json).toMatchObject({
    plan: { code: 'team', payg_enabled: false },
    wallet: { currency: 'USD', lots: expect.arrayContaining([expect.objectContaining({ source: 'purchase' })]) },
    commitment: { amount_usd: 100 },
    payg: { limit_usd: null, period: 'month', remaining_usd: null },
    receivable_usd: 0,
    rate_limits: null,
    effective_rate_limits: { requests_per_minute: 600, tokens_per_minute: 200_000, concurrent_requests: 100 },
  });
  expect((await call('GET', `/admin/organizations/${uuidv7()}/account`, 'operator')).status).toBe(404);
  const { faults } = await edge.billing.billing.verifyLedger({}, service);
  expect(faults).toEqual([]);
});

test('operators list the invoices and transactions of an organization as it sees them itself, and nobody else does', async () => {
  await charge();
  for (const [name, query] of [
    ['invoices', '?status=draft'],
    ['transactions', '?type=usage&limit=1'],
  ] as const) {
    const own = await call('GET', `/billing/documents/${name}${query}`, 'owner');
    expect((own.json as { data: object[] }).data.length).toBeGreaterThan(0);
    const seen = await call('GET', `${organization()}/${name}${query}`, 'operator');
    expect([seen.status, seen.text]).toEqual([200, own.text]);
    expect((await call('GET', `${organization()}/${name}`, 'owner')).status).toBe(403);
    expect((await call('GET', `/admin/organizations/${uuidv7()}/${name}`, 'operator')).status).toBe(404);
  }
  const named = { tenantId: edge.tenantId };
  await expect(edge.billing.billing.listInvoices(named, as(person()))).rejects.toThrow();
  await expect(edge.billing.billing.listTransactions(named, as(person()))).rejects.toThrow();
});
