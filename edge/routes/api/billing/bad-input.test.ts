import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { uuidv7 } from '#shared/ids.ts';
import { paymentSignature } from '../../../../services/billing/fixtures/test-billing.ts';
import { type Answer, type BillingEdge, startBillingEdge } from '../../../fixtures/billing-edge.ts';

/* A refusal leaves Billing as it was: its tables are compared, not just the answers. */

let edge: BillingEdge;
const call = (...words: Parameters<BillingEdge['call']>) => edge.call(...words);

beforeAll(async () => {
  edge = await startBillingEdge();
  // Something to break: credit, a commitment, limits and a spent coupon.
  await call('POST', organization('/credits'), 'operator', { amount_usd: 10, source: 'purchase' });
  const period = { period_start: '2026-01-01', period_end: '2099-01-01' };
  await call('POST', organization('/commitments'), 'operator', { amount_usd: 5, ...period });
  await call('PUT', '/billing/payg-spend-cap', 'owner', { limit_usd: 3 });
  await call('PUT', '/profile/cost-limit', 'owner', { limit_usd: 2 });
  await call('POST', '/admin/coupons', 'operator', { amount_usd: 1, code: 'SPENT-CODE' });
  await call('POST', '/billing/coupons/redeem', 'owner', { code: 'SPENT-CODE' });
});
afterAll(() => edge[Symbol.asyncDispose]());

const organization = (path: string): string => `${edge.organization}${path}`;

/** All of Billing's tables except those that only count tries or pass on audit events. */
const tables = [
  'plans',
  'accounts',
  'transactions',
  'entries',
  'lots',
  'commitments',
  'spend',
  'user_limits',
  'leases',
  'invoices',
  'coupons',
  'coupon_redemptions',
  'payment_events',
  'payments',
  'payment_returns',
  'audit_outbox',
  'idempotency_keys',
];

async function contents(): Promise<string[]> {
  const { pool } = edge.billing.deps.database;
  const digests = tables.map(async (table) => {
    const { rows } = await pool.query<{ digest: string }>(
      `select coalesce(md5(string_agg(row_text, '|' order by row_text)), '') as digest
       from (select rows::text as row_text from ${table} as rows) as texts`,
    );
    // Audit events leave the outbox by themselves; none may be added.
    return table === 'audit_outbox' ? '' : `${table} ${rows[0]!.digest}`;
  });
  return Promise.all(digests);
}

type Refusal = { status: number; code: string | null; param: string | null };
const refusalOf = ({ status, json }: Answer): Refusal => {
  const { error } = json as { error: { code: string | null; param: string | null } };
  return { status, code: error.code, param: error.param };
};

async function expectRefused(ask: () => Promise<Answer>, expected: Partial<Refusal>): Promise<void> {
  const before = await contents();
  const answer = await ask();
  expect(refusalOf(answer), answer.text).toMatchObject(expected);
  expect(await contents()).toEqual(before);
}

/** Bodies are sent as text, since JSON.stringify has no NaN and rounds what a client need not round. */
const amounts: [name: string, text: string][] = [
  ['negative', '-1'],
  ['minus zero point', '-0.000000001'],
  ['huge', '1e30'],
  ['of two billion', '2e9'],
  ['beyond a billion', '1000000000.000000001e1'],
  ['beyond a double', '1e400'],
  ['NaN', 'NaN'],
  ['Infinity', 'Infinity'],
  ['of ten decimals', '0.0000000001'],
  ['of ten decimals and more', '1.0000000001'],
  ['of more digits than a double holds', '100000000.123456789'],
  ['of more whole digits than a double holds', '9007199254740993'],
  ['next to another', '0.10000000000000000001'],
  ['too small for a double', '1e-400'],
  ['a text', '"5"'],
  ['an empty text', '""'],
  ['null', 'null'],
  ['a boolean', 'true'],
  ['a list', '[1]'],
  ['an object', '{}'],
];

/** The address of a target: its organization is the test's. */
const at = (path: string): string => path.replace(':id', edge.tenantId);

const targets: [method: 'PUT' | 'POST', path: string, who: string, field: string, rest: string][] = [
  ['PUT', '/billing/payg-spend-cap', 'owner', 'limit_usd', ''],
  ['PUT', '/profile/cost-limit', 'member', 'limit_usd', ''],
  ['POST', '/admin/organizations/:id/credits', 'operator', 'amount_usd', ''],
  [
    'POST',
    '/admin/organizations/:id/commitments',
    'operator',
    'amount_usd',
    ',"period_start":"2150-01-01","period_end":"2151-01-01"',
  ],
  ['POST', '/admin/coupons', 'operator', 'amount_usd', ''],
];

describe.each(targets)('%s %s', (method, path, who, field, rest) => {
  test.each(amounts)('with an amount that is %s is refused', async (_name, text) => {
    const body = `{"${field}":${text}${rest}}`;
    // Text that is not JSON at all names no field.
    const param = /NaN|Infinity/.test(text) ? null : field;
    await expectRefused(() => call(method, at(path), who, body), { status: 400, param });
  });

  test('without an amount, or with an unknown field, is refused', async () => {
    await expectRefused(() => call(method, at(path), who, `{"extra":1${rest}}`), { status: 400 });
    await expectRefused(() => call(method, at(path), who, `{"${field}":1,"surprise":1${rest}}`), {
      status: 400,
      param: 'surprise',
    });
    for (const body of ['', '{}', '[]']) await expectRefused(() => call(method, at(path), who, body), { status: 400 });
  });
});

test('no grant or commitment is for nothing, and no coupon is worth nothing', async () => {
  for (const [, path, who, field, rest] of targets.filter(([method]) => method === 'POST')) {
    await expectRefused(() => call('POST', at(path), who, `{"${field}":0${rest}}`), { status: 400, param: field });
  }
  const nothing = { amount_usd: 0, description: 'nothing' };
  await expectRefused(() => call('POST', organization('/adjustments'), 'operator', nothing), {
    status: 400,
    param: 'amount_usd',
  });
  const tooMuch = { amount_usd: -1e6, description: 'more than there is' };
  await expectRefused(() => call('POST', organization('/adjustments'), 'operator', tooMuch), { status: 409 });
});

test.each([
  ['start_date', '0000-01-01'],
  ['start_date', '1969-12-31'],
  ['end_date', '9001-01-01'],
  ['end_date', '9999-12-31'],
  ['end_date', '2026-02-31'],
  ['start_date', 'tomorrow'],
  ['end_date', ''],
])('transactions and invoices with a %s of `%s` are refused in words, naming the parameter', async (param, day) => {
  for (const list of ['transactions', 'invoices']) {
    const ask = () => call('GET', `/billing/documents/${list}?${param}=${day}`, 'owner');
    await expectRefused(ask, { status: 400, param, code: 'invalid_value' });
    expect((await ask()).text).toMatch(/: expected a (date as YYYY-MM-DD|year from 1970 to 9000)\./);
  }
});

test('a cap of zero is a cap, and is kept as it is', async () => {
  expect((await call('PUT', '/billing/payg-spend-cap', 'owner', { limit_usd: 0 })).json).toMatchObject({
    limit_usd: 0,
    remaining_usd: 0,
  });
  await call('PUT', '/billing/payg-spend-cap', 'owner', { limit_usd: 3 });
});

test('a member may read the PAYG cap but change nothing about it, by session or key', async () => {
  for (const who of ['member', 'key:budgets:update_own']) {
    await expectRefused(() => call('PUT', '/billing/payg-spend-cap', who, { limit_usd: 9 }), {
      status: 403,
      code: 'insufficient_role',
    });
    await expectRefused(() => call('DELETE', '/billing/payg-spend-cap', who), {
      status: 403,
      code: 'insufficient_role',
    });
  }
  expect((await call('GET', '/billing/payg-spend-cap', 'member')).json).toMatchObject({ limit_usd: 3 });
});

test.each(['owner', 'member'])('an operator’s endpoints refuse an %s', async (who) => {
  for (const path of ['/credits', '/commitments', '/adjustments']) {
    const body = { amount_usd: 1, description: 'mine', period_start: '2150-01-01', period_end: '2151-01-01' };
    await expectRefused(() => call('POST', organization(path), who, body), { status: 403 });
  }
  await expectRefused(() => call('POST', '/admin/coupons', who, { amount_usd: 1 }), { status: 403 });
  await expectRefused(() => call('PUT', organization('/plan'), who, { code: 'prepaid' }), { status: 403 });
});

test.each([
  ['unknown', 'NO-SUCH-CODE'],
  ['spent', 'SPENT-CODE'],
  ['spent, in other letters', ' spent-code '],
  ['of control characters', '\u0000\u0007'],
])('a code that is %s gives nothing', async (_name, code) => {
  await expectRefused(() => call('POST', '/billing/coupons/redeem', 'owner', { code }), { status: 400, param: 'code' });
});

test.each([
  {},
  { code: '' },
  { code: 5 },
  { code: null },
  { code: 'X'.repeat(65) },
  { code: 'SPENT-CODE', amount_usd: 9 },
])('a redemption of %j is refused', async (body) => {
  await expectRefused(() => call('POST', '/billing/coupons/redeem', 'owner', body), { status: 400 });
});

describe('a webhook', () => {
  const payload = (fields: object = {}): string =>
    JSON.stringify({
      id: `evt_${uuidv7()}`,
      type: 'payment_intent.succeeded',
      data: {
        object: {
          id: `pi_${uuidv7()}`,
          currency: 'usd',
          amount_received: 999,
          metadata: { tenant_id: edge.tenantId },
          ...fields,
        },
      },
    });
  const now = (): number => Math.floor(Date.now() / 1000);
  const receive = (body: string, header?: string) =>
    call('POST', '/webhooks/payments', '', body, header === undefined ? {} : { 'stripe-signature': header });

  test.each<[string, (body: string) => string | undefined]>([
    ['without a signature', () => undefined],
    ['with an empty one', () => ''],
    ['signed by somebody else', (body) => paymentSignature(body, now(), 'whsec_another')],
    ['signed for another body', () => paymentSignature('{}')],
    ['signed six minutes ago', (body) => paymentSignature(body, now() - 360)],
    ['signed in six minutes', (body) => paymentSignature(body, now() + 360)],
    ['with its time changed', (body) => paymentSignature(body).replace(/t=\d+/, `t=${now() - 1}`)],
    ['with a signature cut short', (body) => paymentSignature(body).slice(0, -2)],
    ['with the older scheme alone', (body) => paymentSignature(body).replace('v1=', 'v0=')],
  ])('%s books nothing', async (_name, sign) => {
    const body = payload();
    await expectRefused(() => receive(body, sign(body)), { status: 400, code: 'invalid_webhook' });
  });

  test.each([
    '',
    'null',
    '[]',
    '"text"',
    '{}',
    '{"id":"e","type":"t"}',
    '{"id":"","type":"t","data":{"object":{}}}',
    '{"id":"e\\u0000","type":"t","data":{"object":{}}}',
    'no json',
  ])('that is signed and says %j books nothing', async (body) => {
    await expectRefused(() => receive(body, paymentSignature(body)), { status: 400 });
  });

  test('that is replayed books nothing more', async () => {
    const body = payload();
    const header = paymentSignature(body);
    expect((await receive(body, header)).json).toEqual({ received: true, duplicate: false });
    const before = await contents();
    expect((await receive(body, header)).json).toEqual({ received: true, duplicate: true });
    expect((await receive(body, paymentSignature(body, now() - 60))).json).toEqual({ received: true, duplicate: true });
    expect(await contents()).toEqual(before);
  });
});
