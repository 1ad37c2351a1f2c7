import { afterEach, beforeEach, expect, test } from 'vitest';
import { uuidv7 } from '#shared/ids.ts';
import { type BillingEdge, startBillingEdge } from '../../../fixtures/billing-edge.ts';

let edge: BillingEdge;
// A new one for each test, so that none depends on another.
beforeEach(async () => {
  edge = await startBillingEdge();
});
afterEach(() => edge[Symbol.asyncDispose]());

test('amounts are exact decimals, and a repeat under an Idempotency-Key is the same grant', async () => {
  const body = { amount_usd: 12.000000345, source: 'purchase', description: 'for trying' };
  const key = { 'idempotency-key': 'grant-1' };
  const first = await edge.call('POST', `${edge.organization}/credits`, 'operator', body, key);
  expect(first.status, first.text).toBe(201);
  expect(first.text).toContain('"granted_usd":12.000000345');
  expect((await edge.call('POST', `${edge.organization}/credits`, 'operator', body, key)).json).toEqual(first.json);
  const other = await edge.call('POST', `${edge.organization}/credits`, 'operator', { ...body, amount_usd: 13 }, key);
  expect([other.status, (other.json as { error: { code: string } }).error.code]).toEqual([
    400,
    'idempotency_key_reused',
  ]);
  expect((await edge.call('GET', '/billing/wallet', 'owner')).text).toContain('"balance_usd":12.000000345');
  const unknown = await edge.call('POST', `/admin/organizations/${uuidv7()}/credits`, 'operator', body);
  expect(unknown.status).toBe(404);
  expect((await edge.call('POST', `${edge.organization}/credits`, 'owner', body)).status).toBe(403);
});

test('every POST that creates something does so once under its Idempotency-Key, and refuses another body under it', async () => {
  const period = { period_start: '2150-01-01', period_end: '2151-01-01' };
  await edge.charge();
  const { data } = (await edge.call('GET', '/billing/documents/transactions?type=usage', 'owner')).json as {
    data: { id: string }[];
  };
  const posts: [path: string, who: string, body: object, other: object][] = [
    [`${edge.organization}/credits`, 'operator', { amount_usd: 2 }, { amount_usd: 2, source: 'purchase' }],
    [`${edge.organization}/credits`, 'operator', { amount_usd: 2 }, { amount_usd: 2, expires_at: '2040-01-01' }],
    [
      `${edge.organization}/adjustments`,
      'operator',
      { amount_usd: 1, description: 'a' },
      { amount_usd: -1, description: 'a' },
    ],
    [
      `${edge.organization}/commitments`,
      'operator',
      { amount_usd: 3, ...period },
      { amount_usd: 3, ...period, period_end: '2152-01-01' },
    ],
    [
      `${edge.organization}/transactions/${data[0]!.id}/refund`,
      'operator',
      { amount_usd: 0.000000001, description: 'b' },
      { description: 'b' },
    ],
    ['/admin/coupons', 'operator', { amount_usd: 4 }, { amount_usd: 4, redemptions_max: 9 }],
    ['/admin/coupons', 'operator', { amount_usd: 4, code: 'ONCE-ONLY' }, { amount_usd: 4, code: 'ONCE-MORE' }],
  ];
  const { code } = (await edge.call('POST', '/admin/coupons', 'operator', { amount_usd: 1 })).json as { code: string };
  posts.push(['/billing/coupons/redeem', 'owner', { code }, { code: 'ONCE-ONLY' }]);
  const counts = async () =>
    Promise.all(
      ['/admin/coupons', '/billing/documents/transactions', `${edge.organization}/commitments`].map(
        async (path) =>
          (
            (await edge.call('GET', path, path.startsWith('/billing') ? 'owner' : 'operator')).json as {
              pagination: { total: number };
            }
          ).pagination.total,
      ),
    );
  for (const [index, [path, who, body, other]] of posts.entries()) {
    const key = { 'idempotency-key': `once-${index}` };
    const first = await edge.call('POST', path, who, body, key);
    expect(first.status, `${path} ${first.text}`).toBe(201);
    const before = await counts();
    const repeats = await Promise.all(Array.from({ length: 3 }, () => edge.call('POST', path, who, body, key)));
    for (const repeat of repeats) expect([repeat.status, repeat.text]).toEqual([201, first.text]);
    const reused = await edge.call('POST', path, who, other, key);
    expect([reused.status, (reused.json as { error: { code: string } }).error.code], path).toEqual([
      400,
      'idempotency_key_reused',
    ]);
    expect(await counts(), path).toEqual(before);
  }
  // A coupon's code is returned again, but is not stored anywhere.
  const { rows } = await edge.billing.deps.database.pool.query<{ response: Buffer }>(
    'select response from idempotency_keys',
  );
  expect(rows.length).toBeGreaterThanOrEqual(posts.length);
  for (const { response } of rows) expect(response.toString()).not.toMatch(/[0-9A-Z]{7}-[0-9A-Z]{7}/);
});
