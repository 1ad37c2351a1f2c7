import { afterEach, beforeEach, expect, test } from 'vitest';
import { uuidv7 } from '#shared/ids.ts';
import { service, toNextMonth } from '../../../../services/billing/fixtures/test-billing.ts';
import { expireCredit } from '../../../../services/billing/workers/expire-credit.ts';
import { finalizeInvoices } from '../../../../services/billing/workers/finalize-invoices.ts';
import { type BillingEdge, startBillingEdge } from '../../../fixtures/billing-edge.ts';

let edge: BillingEdge;
// A new one for each test, so that none depends on another.
beforeEach(async () => {
  edge = await startBillingEdge();
});
afterEach(() => edge[Symbol.asyncDispose]());

async function expectSoundLedger(): Promise<void> {
  expect((await edge.billing.billing.verifyLedger({}, service)).faults).toEqual([]);
}

test('a new organization has the default plan, an empty wallet and no commitment', async () => {
  expect((await edge.call('GET', '/plan/current', 'member')).json).toMatchObject({
    code: 'developer',
    name: 'Developer',
    payg_enabled: true,
    rate_limits: { requests_per_minute: 600, tokens_per_minute: 200_000, concurrent_requests: 100 },
    included: { monthly_credit_usd: 0, features: [] },
  });
  expect((await edge.call('GET', '/billing/wallet', 'owner')).json).toEqual({
    balance_usd: 0,
    currency: 'USD',
    lots: [],
  });
  const commitment = await edge.call('GET', '/billing/commitment', 'owner');
  expect([commitment.status, commitment.text]).toEqual([200, 'null']);
});

test('each member is told when nothing is left to pay calls with, and no amounts', async () => {
  const isExhausted = async () => {
    const { json } = await edge.call('GET', '/plan/current', 'member');
    return (json as { funds_exhausted: boolean }).funds_exhausted;
  };
  expect(await isExhausted()).toBe(false);
  await edge.call('PUT', '/billing/payg-spend-cap', 'owner', { limit_usd: 0 });
  expect(await isExhausted()).toBe(true);
  await edge.call('PUT', '/billing/payg-spend-cap', 'owner', { limit_usd: 1 });
  expect(await isExhausted()).toBe(false);

  const plan = { name: 'Prepaid', payg_enabled: false };
  await edge.call('PUT', '/admin/plans/prepaid', 'operator', plan);
  await edge.call('PUT', `${edge.organization}/plan`, 'operator', { code: 'prepaid' });
  expect(await isExhausted()).toBe(true);
  await edge.call('POST', `${edge.organization}/credits`, 'operator', { amount_usd: 0.000000001 });
  expect(await isExhausted()).toBe(false);
  await edge.call('POST', `${edge.organization}/adjustments`, 'operator', {
    amount_usd: -0.000000001,
    description: 'x',
  });
  expect(await isExhausted()).toBe(true);
  // The credit of a month is given when somebody looks.
  await edge.call('PUT', '/admin/plans/prepaid', 'operator', { ...plan, monthly_credit_usd: 1 });
  expect(await isExhausted()).toBe(false);
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
    expect((await edge.call('GET', path, 'member')).json, path).toMatchObject({ error: { code: 'insufficient_role' } });
    const scope = path.includes('documents') ? 'billing:read_invoices' : 'billing:read_current';
    expect((await edge.call('GET', path, `key:${scope}`)).json, path).toMatchObject({
      error: { code: 'insufficient_role' },
    });
    expect((await edge.call('GET', path, 'key:profile:read')).json, path).toMatchObject({
      error: { code: 'missing_scope' },
    });
  }
  for (const method of ['PUT', 'DELETE'] as const) {
    const body = method === 'PUT' ? { limit_usd: 1 } : undefined;
    const refused = await edge.call(method, '/billing/payg-spend-cap', 'key:budgets:update_own', body);
    expect([refused.status, (refused.json as { error: { code: string } }).error.code]).toEqual([
      403,
      'insufficient_role',
    ]);
  }
  expect(
    (await edge.call('PUT', '/profile/cost-limit', 'key:budgets:update_own', { limit_usd: 2.5 })).json,
  ).toMatchObject({
    limit_usd: 2.5,
    period: 'day',
    spent_usd: 0,
    remaining_usd: 2.5,
  });
  expect((await edge.call('DELETE', '/profile/cost-limit', 'member')).status).toBe(204);
  expect((await edge.call('GET', '/profile/cost-limit', 'key:budgets:read_own')).json).toMatchObject({
    limit_usd: null,
  });
  const redeem = await edge.call('POST', '/billing/coupons/redeem', 'key:budgets:update_own', { code: 'WELCOME' });
  expect(redeem.json).toMatchObject({ error: { code: 'endpoint_not_allowed' } });
});

test('a plan says which rate limits are its own, so that replacing it leaves the others to the platform', async () => {
  const plan = { name: 'Open', payg_enabled: true, rate_limits: { requests_per_minute: 7 } };
  const own = { requests_per_minute: 7, tokens_per_minute: null, concurrent_requests: null };
  const platforms = { requests_per_minute: 600, tokens_per_minute: 200_000, concurrent_requests: 100 };
  expect((await edge.call('PUT', '/admin/plans/open', 'operator', plan)).json).toMatchObject({ own_rate_limits: own });
  const wide = { name: 'Wide', payg_enabled: true };
  for (const [asked, days] of [
    [{ payment_terms_days: 14 }, 14],
    [{}, 30],
  ] as const) {
    const put = await edge.call('PUT', '/admin/plans/open-wide', 'operator', { ...wide, ...asked });
    expect(put.json).toMatchObject({ payment_terms_days: days });
  }
  const { json } = await edge.call('GET', '/admin/plans', 'operator');
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

test('operators put an organization on an existing plan, and on no other', async () => {
  const plan = { name: 'Team', payg_enabled: false, monthly_credit_usd: 10, features: ['support'] };
  expect((await edge.call('PUT', '/admin/plans/team', 'operator', plan)).json).toMatchObject({
    code: 'team',
    payg_enabled: false,
  });
  expect((await edge.call('PUT', `${edge.organization}/plan`, 'operator', { code: 'team' })).status).toBe(200);
  expect((await edge.call('GET', '/plan/current', 'member')).json).toMatchObject({ code: 'team' });
  const unknown = await edge.call('PUT', `${edge.organization}/plan`, 'operator', { code: 'none' });
  expect([unknown.status, unknown.json]).toMatchObject([404, { error: { message: 'No such plan.', param: 'code' } }]);
});

test('operators agree on one commitment at a time, and on the next from the moment it ends', async () => {
  const agree = async (amount_usd: number, period_start: string, period_end: string) =>
    (await edge.call('POST', `${edge.organization}/commitments`, 'operator', { amount_usd, period_start, period_end }))
      .status;
  expect(await agree(100, '2026-01-01', '2098-01-01')).toBe(201);
  expect(await agree(100, '2026-01-01', '2098-01-01')).toBe(409);
  expect(await agree(300, '2099-01-01', '2100-01-01')).toBe(201);
  expect(await agree(200, '2098-01-01', '2099-01-02')).toBe(409);
  expect(await agree(200, '2098-01-01', '2099-01-01')).toBe(201);
  expect((await edge.call('GET', '/billing/commitment', 'owner')).json).toMatchObject({
    amount_usd: 100,
    remaining_usd: 100,
  });
});

test('operators end a commitment that was recorded wrongly, begun or not: nothing draws on it any more, and the right one takes its place', async () => {
  const commitments = `${edge.organization}/commitments`;
  const agree = (amount_usd: number, period_start: string, period_end: string) =>
    edge.call('POST', commitments, 'operator', { amount_usd, period_start, period_end });
  const idOf = async (made: ReturnType<typeof agree>) => ((await made).json as { id: string }).id;
  const wrong = await idOf(agree(1_000, '2026-01-01', '2098-01-01'));
  const later = await idOf(agree(2_000, '2098-01-01', '2099-01-01'));
  const end = (id: string, who = 'operator') => edge.call('POST', `${commitments}/${id}/end`, who);
  for (const id of [wrong, later]) {
    const ended = await end(id);
    expect([ended.status, ended.json]).toEqual([200, expect.objectContaining({ id })]);
    expect((ended.json as { period_end: string }).period_end <= new Date().toISOString()).toBe(true);
    // To repeat it changes nothing.
    expect((await end(id)).json).toEqual(ended.json);
  }
  expect((await edge.call('GET', '/billing/commitment', 'owner')).json).toBeNull();
  await expireCredit({ ...edge.billing.deps, signal: new AbortController().signal });
  const { data } = (await edge.call('GET', commitments, 'operator')).json as { data: object[] };
  expect(data).toMatchObject([
    { id: later, remaining_usd: 0 },
    { id: wrong, remaining_usd: 0 },
  ]);
  await expectSoundLedger();

  expect((await agree(100, '2026-01-01', '2098-01-01')).status).toBe(201);
  expect((await agree(200, '2098-01-01', '2099-01-01')).status).toBe(201);
  for (const unknown of [uuidv7(), 'none']) expect((await end(unknown)).status).toBe(404);
  expect((await end(wrong, 'owner')).status).toBe(403);
});

test('operators reduce credit by no more than what there is, and are told how much that is', async () => {
  await edge.purchase(12);
  const adjust = (amount_usd: number, description: string) =>
    edge.call('POST', `${edge.organization}/adjustments`, 'operator', { amount_usd, description });
  expect((await adjust(1.5, 'sorry')).json).toMatchObject({ type: 'adjustment', amount_usd: 1.5 });
  const taken = await adjust(-1, 'too much');
  expect(taken.status).toBe(201);
  // Only charges can be refunded.
  const { id } = taken.json as { id: string };
  const path = `${edge.organization}/transactions/${id}/refund`;
  expect((await edge.call('POST', path, 'operator', { description: 'no charge' })).status).toBe(404);
  const all = await adjust(-1e6, 'all');
  expect(all.status).toBe(409);
  expect(all.json).toMatchObject({ error: { message: expect.stringMatching(/ only 12\.5 USD of credit left/) } });
  expect((await edge.call('GET', '/billing/wallet', 'owner')).json).toMatchObject({ balance_usd: 12.5 });
  await expectSoundLedger();
});

test('a disputed payment can be taken back whole after its credit was spent: the wallet is below zero, calls are not paid from it, and later credit of every kind pays what is owed first', async () => {
  const adjust = (amount_usd: number, fields = {}) =>
    edge.call('POST', `${edge.organization}/adjustments`, 'operator', {
      amount_usd,
      description: 'Dispute',
      ...fields,
    });
  const wallet = async () => {
    const { json } = await edge.call('GET', '/billing/wallet', 'owner');
    const { balance_usd, lots } = json as {
      balance_usd: number;
      lots: { granted_usd: number; remaining_usd: number }[];
    };
    return [balance_usd, ...lots.map(({ granted_usd, remaining_usd }) => [granted_usd, remaining_usd])];
  };
  const isExhausted = async () =>
    ((await edge.call('GET', '/plan/current', 'member')).json as { funds_exhausted: boolean }).funds_exhausted;
  const prepaid = { name: 'Prepaid', payg_enabled: false };
  await edge.call('PUT', '/admin/plans/prepaid', 'operator', prepaid);
  await edge.call('PUT', `${edge.organization}/plan`, 'operator', { code: 'prepaid' });
  await edge.purchase(10);
  await edge.charge();
  expect((await adjust(-10)).status).toBe(409);
  expect(await wallet()).toEqual([8.76543, [10, 8.76543]]);

  const taken = await adjust(-10, { allow_negative_balance: true });
  expect(taken.json).toMatchObject({ type: 'adjustment', amount_usd: -10, balance_after_usd: -1.23457 });
  expect(await wallet()).toEqual([-1.23457]);
  expect(await isExhausted()).toBe(true);
  expect((await adjust(-0.5)).json).toMatchObject({
    error: { message: expect.stringMatching(/ only 0 USD of credit/) },
  });
  expect((await adjust(-0.5, { allow_negative_balance: true })).json).toMatchObject({ balance_after_usd: -1.73457 });
  await expectSoundLedger();

  const { json: coupon } = await edge.call('POST', '/admin/coupons', 'operator', { amount_usd: 0.2 });
  const redeemed = await edge.call('POST', '/billing/coupons/redeem', 'owner', {
    code: (coupon as { code: string }).code,
  });
  expect(redeemed.json).toMatchObject({ lot: { granted_usd: 0.2, remaining_usd: 0 }, balance_usd: -1.53457 });
  await edge.call('PUT', '/admin/plans/prepaid', 'operator', { ...prepaid, monthly_credit_usd: 0.3 });
  expect(await wallet()).toEqual([-1.23457]);
  expect((await adjust(0.03457)).json).toMatchObject({ balance_after_usd: -1.2 });
  expect(await isExhausted()).toBe(true);
  expect((await edge.purchase(1)).json).toMatchObject({ granted_usd: 1, remaining_usd: 0 });
  expect((await edge.purchase(5)).json).toMatchObject({ granted_usd: 5, remaining_usd: 4.8 });
  expect(await wallet()).toEqual([4.8, [5, 4.8]]);
  expect(await isExhausted()).toBe(false);
  const { json: listed } = await edge.call('GET', '/billing/documents/transactions', 'owner');
  expect(
    (listed as { data: { amount_usd: number; balance_after_usd: number }[] }).data.map((one) => [
      one.amount_usd,
      one.balance_after_usd,
    ]),
  ).toEqual([
    [5, 4.8],
    [1, -0.2],
    [0.03457, -1.2],
    [0.3, -1.23457],
    [0.2, -1.53457],
    [-0.5, -1.73457],
    [-10, -1.23457],
    [-1.23457, 8.76543],
    [10, 10],
  ]);
  await expectSoundLedger();
  for (let times = 0; times < 2; times += 1) {
    const { status } = await adjust(-1e9, { allow_negative_balance: true });
    expect(status).toBe(times === 0 ? 201 : 409);
  }
});

test('an account that holds as much as it can takes no further credit: operators are told, and that of its plan is left out', async () => {
  const statuses: number[] = [];
  for (let times = 0; times < 9; times += 1) statuses.push((await edge.purchase(1e9)).status);
  expect(statuses).toEqual([...Array(8).fill(201), 409]);
  await edge.call('PUT', '/admin/plans/team', 'operator', { name: 'Team', payg_enabled: true, monthly_credit_usd: 1 });
  expect((await edge.call('PUT', `${edge.organization}/plan`, 'operator', { code: 'team' })).status).toBe(200);
  expect((await edge.call('GET', '/billing/wallet', 'owner')).json).toMatchObject({ balance_usd: 8e9 });
});

test('operators refund a charge in parts, up to what it cost', async () => {
  await edge.purchase(12);
  for (let times = 0; times < 2; times += 1) await edge.charge();
  const { data } = (await edge.call('GET', '/billing/documents/transactions?type=usage', 'owner')).json as {
    data: { id: string; amount_usd: number }[];
  };
  const refund = (body: object, place = 0, headers = {}) =>
    edge.call('POST', `${edge.organization}/transactions/${data[place]!.id}/refund`, 'operator', body, headers);
  const part = await refund({ amount_usd: 0.2, description: 'bad answer' });
  expect(part.json).toMatchObject({ type: 'refund', amount_usd: 0.2, reverses_id: data[0]!.id });
  const refused = async (body: object) => {
    const { status, json } = await refund(body);
    const { param, message } = (json as { error: { param: string | null; message: string } }).error;
    return [status, param, message];
  };
  const tooMuch = 'Only 1.03457 USD of the charge are left to refund.';
  expect(await refused({ amount_usd: 2, description: 'again' })).toEqual([409, 'amount_usd', tooMuch]);
  expect((await refund({ description: 'the rest' })).json).toMatchObject({ amount_usd: 1.03457 });
  const nothing = [409, null, 'Nothing is left of the charge to refund.'];
  expect(await refused({ description: 'more' })).toEqual(nothing);
  expect(await refused({ amount_usd: 0.1, description: 'more' })).toEqual(nothing);
  // A key of days ago, too, is not taken for that of the same refund of another charge.
  const ofOther = [{ amount_usd: 0.2, description: 'bad answer' }, 1, { 'idempotency-key': 'once' }] as const;
  expect((await refund(...ofOther)).status).toBe(201);
  edge.billing.travel(3 * 86_400_000);
  expect((await refund(ofOther[0], 0, ofOther[2])).json).toMatchObject({ error: { code: 'idempotency_key_reused' } });
  await expectSoundLedger();
});

test('operators read the complete account of an organization, and get 404 for one that does not exist', async () => {
  await edge.purchase(12);
  await edge.charge();
  const agreed = { amount_usd: 100, period_start: '2026-01-01', period_end: '2099-01-01' };
  await edge.call('POST', `${edge.organization}/commitments`, 'operator', agreed);
  await edge.call('PUT', '/admin/plans/team', 'operator', { name: 'Team', payg_enabled: false });
  await edge.call('PUT', `${edge.organization}/plan`, 'operator', { code: 'team' });
  expect((await edge.call('GET', `${edge.organization}/account`, 'operator')).json).toMatchObject({
    plan: { code: 'team', payg_enabled: false },
    wallet: { currency: 'USD', lots: expect.arrayContaining([expect.objectContaining({ source: 'purchase' })]) },
    commitment: { amount_usd: 100 },
    payg: { limit_usd: null, period: 'month', remaining_usd: null },
    receivable_usd: 0,
    rate_limits: null,
    effective_rate_limits: { requests_per_minute: 600, tokens_per_minute: 200_000, concurrent_requests: 100 },
  });
  for (const part of ['account', 'commitments', 'invoices', 'transactions']) {
    expect((await edge.call('GET', `/admin/organizations/${uuidv7()}/${part}`, 'operator')).status, part).toBe(404);
  }
  await expectSoundLedger();
});

test('operators see what an organization owes and for what, and record when it was paid', async () => {
  const { billing, organization } = edge;
  await edge.charge();
  await toNextMonth(billing, 2 * 3_600_000);
  await finalizeInvoices(billing.deps);
  const owed = async () =>
    ((await edge.call('GET', `${organization}/account`, 'operator')).json as { receivable_usd: number }).receivable_usd;
  expect(await owed()).toBe(1.23457);
  const { data } = (await edge.call('GET', `${organization}/invoices`, 'operator')).json as {
    data: { id: string; issued_at: string }[];
  };
  const path = `${organization}/invoices/${data[0]!.id}`;
  const shown = (await edge.call('GET', path, 'operator')).json as { line_items: { amount_usd: number }[] };
  expect(shown.line_items.reduce((sum, { amount_usd }) => sum + amount_usd, 0)).toBeCloseTo(1.23457, 9);
  expect((await edge.call('GET', path, 'owner')).status).toBe(403);
  billing.travel(86_400_000);
  const paidAt = new Date(Date.parse(data[0]!.issued_at) + 3_600_000).toISOString();
  const pay = await edge.call('POST', `${organization}/invoices/${data[0]!.id}/pay`, 'operator', { paid_at: paidAt });
  expect(pay.json).toMatchObject({ payment_status: 'paid', paid_at: paidAt });
  expect(await owed()).toBe(0);
});
