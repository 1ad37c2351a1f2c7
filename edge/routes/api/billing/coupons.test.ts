import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { uuidv7 } from '#shared/ids.ts';
import { type Answer, type BillingEdge, startBillingEdge } from '../../../fixtures/billing-edge.ts';

let edge: BillingEdge;
// A new one for each test, so that none depends on another.
beforeEach(async () => {
  edge = await startBillingEdge();
});
afterEach(() => edge[Symbol.asyncDispose]());

test('a coupon gives its credit once, however its code is written, and lists do not show the code', async () => {
  const made = await edge.call('POST', '/admin/coupons', 'operator', { amount_usd: 5, credit_lifetime_days: 30 });
  expect([made.status, made.headers['cache-control']], made.text).toEqual([201, 'no-store']);
  const { code } = made.json as { code: string };
  const redeemed = await edge.call('POST', '/billing/coupons/redeem', 'member', { code: ` ${code.toLowerCase()} ` });
  expect(redeemed.json).toMatchObject({ lot: { source: 'coupon', granted_usd: 5 } });
  const { lot } = redeemed.json as { lot: { created_at: string; expires_at: string } };
  expect(Date.parse(lot.expires_at) - Date.parse(lot.created_at)).toBe(30 * 86_400_000);
  // Members may not see the wallet.
  expect(redeemed.json).not.toHaveProperty('balance_usd');
  for (const [wrong, message] of [
    // A colleague who does not know of it looks for its credit, not for another code.
    [code, 'Your organization has already redeemed this coupon.'],
    ['NO-SUCH-CODE', 'This coupon code is unknown, already used or expired.'],
  ]) {
    const { status, json } = await edge.call('POST', '/billing/coupons/redeem', 'owner', { code: wrong });
    expect([status, json]).toMatchObject([400, { error: { code: 'invalid_code', param: 'code', message } }]);
  }
  const again = await edge.call('POST', '/admin/coupons', 'operator', { amount_usd: 5, code });
  expect([again.status, again.json]).toMatchObject([409, { error: { code: 'conflict', param: 'code' } }]);
  const listed = await edge.call('GET', '/admin/coupons', 'operator');
  expect((listed.json as { data: object[] }).data).toHaveLength(1);
  expect(listed.text).not.toContain(code);
});

test('a coupon that is switched off gives nothing, and its code is treated like one that never existed', async () => {
  const { id, code } = (await edge.call('POST', '/admin/coupons', 'operator', { amount_usd: 5 })).json as {
    id: string;
    code: string;
  };
  expect((await edge.call('POST', `/admin/coupons/${id}/disable`, 'operator')).status).toBe(200);
  const refused = await edge.call('POST', '/billing/coupons/redeem', 'owner', { code });
  const unknown = await edge.call('POST', '/billing/coupons/redeem', 'owner', { code: 'NO-SUCH-CODE' });
  expect([refused.status, refused.text]).toEqual([400, unknown.text]);
  expect((await edge.call('GET', '/billing/wallet', 'owner')).json).toMatchObject({ balance_usd: 0 });
});

test('codes can be guessed only a few times, and the refusal says how long to wait', async () => {
  let last: Answer | undefined;
  // Twenty are allowed per hour, and an hour may end during the test.
  for (let tries = 0; tries <= 40 && last?.status !== 429; tries++) {
    last = await edge.call('POST', '/billing/coupons/redeem', 'member', { code: `GUESS-${tries}` });
  }
  expect(last?.status).toBe(429);
  expect(Number(last?.headers['retry-after'])).toBeGreaterThan(0);
});

test('of the codes that a member tries, only those of the last hour are remembered', async () => {
  const { deps, travel } = edge.billing;
  const guess = () => edge.call('POST', '/billing/coupons/redeem', 'member', { code: 'GUESS' });
  const kept = async () => (await deps.database.pool.query('select hour from coupon_attempts')).rows;
  for (let hours = 0; hours < 3; hours += 1) {
    await Promise.all([guess(), guess(), guess()]);
    travel(3_600_000);
  }
  const nowMs = await deps.databaseNow(deps.database.pool);
  await guess();
  expect((await kept()).map(({ hour }) => nowMs - hour.getTime() < 3_660_000)).toEqual([true]);
});

test('of a query, lists take only the page: another member could make it a message that cannot be sent to another process', async () => {
  const { billing } = edge.billing;
  const lists = [
    [vi.spyOn(billing, 'listCoupons'), '/admin/coupons'],
    [vi.spyOn(billing, 'listCommitments'), `${edge.organization}/commitments`],
    [vi.spyOn(billing, 'listInvoiceTransactions'), `/billing/documents/invoices/${uuidv7()}/transactions`],
  ] as const;
  for (const [list, path] of lists) {
    await edge.call('GET', `${path}?limit=5&%24typeName=modelgateway.common.v1.PageRequest`, 'operator');
    expect(list.mock.lastCall?.[0].page).toEqual({ limit: 5 });
  }
});
