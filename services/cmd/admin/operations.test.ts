import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { v7 } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { finalizePastMonths } from '../../../test/browser/support/world/money.ts';
import { adminOf } from '../../../test/support/admin.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { startTestGateway, type TestGateway, testSecrets } from '../../../test/support/gateway.ts';
import { startProcess } from '../../../test/support/processes.ts';
import { startUpstreamSimulator } from '../../../test/support/upstream-simulator.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { usageEvent } from '../../billing/fixtures/test-billing.ts';
import { testEvent } from '../../usage/fixtures/test-events.ts';

// The commands that have no other test, against the whole gateway.

let gateway: TestGateway;
let session: string;
let organization: string;
let userId: string;
beforeAll(async () => {
  gateway = await startTestGateway();
  session = await gateway.login();
  const profile = (await gateway.call('GET', '/api/v1/profile', session)).json;
  [organization, userId] = [profile.tenant_id, profile.id];
});
afterAll(async () => gateway?.[Symbol.asyncDispose]());

const { admin, json } = adminOf(() => gateway);
/** The exit code of a command that fails, and the first line of what it says. */
const refusal = async (...argv: string[]) => {
  const { exitCode, stdout, stderr } = await admin(...argv);
  expect(stdout).toBe('');
  return [exitCode, stderr.split('\n')[0]];
};
/** The process of `npm run admin`. */
const shell = (args: string[], env: Record<string, string>) =>
  startProcess({ script: 'services/cmd/admin.ts', args, env: { SERVICE_SECRET: testSecrets.SERVICE_SECRET, ...env } });
const balance = async () => (await json('organizations', 'show', organization)).wallet.balance_usd;

test('credit is granted and adjusted from a shell, and once however often the command is repeated under its key', async () => {
  const grant = (usd: string) => ['credits', 'grant', organization, usd, '--idempotency-key', 'welcome'];
  const lot = await json(...grant('25.000000001'), '--expires', '2999-01-01');
  expect(lot).toMatchObject({ source: 'promotion', granted_usd: 25.000000001, expires_at: '2999-01-01T00:00:00.000Z' });
  expect(await json(...grant('25.000000001'), '--expires', '2999-01-01')).toEqual(lot);
  expect(await refusal(...grant('26'))).toEqual([1, expect.stringContaining('already used with a different request')]);
  expect(await balance()).toBe(25.000000001);
  const adjust = (...args: string[]) => ['credits', 'adjust', organization, ...args, '--description', 'chargeback'];
  expect(await json(...adjust('deduct', '5.000000001'))).toMatchObject({
    type: 'adjustment',
    amount_usd: -5.000000001,
    balance_after_usd: 20,
    description: 'chargeback',
  });
  await json(...adjust('add', '1'));
  expect(await refusal(...adjust('deduct', '500'))).toEqual([1, expect.stringContaining('only 21 USD of credit left')]);
  expect(await json(...adjust('deduct', '22'), '--allow-negative-balance')).toMatchObject({ balance_after_usd: -1 });
  await json(...adjust('add', '22'));
  expect(await refusal(...adjust('take', '5'))).toEqual([2, 'say whether to `add` or to `deduct`']);
  for (const wrong of ['0', 'many', '1.0000000001', '1000000001', '1e3']) {
    expect(await refusal(...adjust('add', wrong)), wrong).toEqual([2, expect.stringContaining('not an amount in USD')]);
  }
  expect(await refusal('credits', 'adjust', organization, 'add', '1')).toEqual([2, '--description is missing']);
  expect(await balance()).toBe(21);
});

test('a payment is booked once from a shell, by the id that its provider gave it', async () => {
  const before = await balance();
  const purchase = ['credits', 'grant', organization, '7', '--source', 'purchase', '--payment', 'pi_from_a_shell'];
  expect(await json(...purchase)).toMatchObject({ source: 'purchase', granted_usd: 7 });
  expect(await refusal(...purchase)).toEqual([1, 'The payment pi_from_a_shell is booked already.']);
  expect(await balance()).toBe(before + 7);
});

test('money of an organization that does not exist is moved nowhere', async () => {
  for (const command of [
    ['credits', 'grant', uuidv7(), '1'],
    ['credits', 'adjust', uuidv7(), 'add', '1', '--description', 'x'],
    ['commitments', 'create', uuidv7(), '1', '2990-01-01', '2991-01-01'],
    ['organizations', 'plan', uuidv7(), 'developer'],
  ]) {
    expect(await refusal(...command)).toEqual([1, 'No such organization.']);
  }
});

test('an operator whose movement of money got no answer is told how to repeat it without moving it twice', async () => {
  await using child = shell(['credits', 'grant', organization, '1'], { RPC_PORT: String(await freePort()) });
  expect(await child.exited()).toMatchObject({ code: 1 });
  const [, key] = /To be sure that it is done once, repeat it with --idempotency-key (\S+)\.\n/.exec(child.output)!;
  const before = await balance();
  for (let time = 0; time < 2; time++) {
    await using repeat = shell(['credits', 'grant', organization, '1', '--idempotency-key', key!, '--json'], {
      RPC_URLS: `auth=${gateway.gateway.rpcUrl},billing=${gateway.gateway.rpcUrl}`,
    });
    expect(await repeat.exited(), repeat.output).toMatchObject({ code: 0 });
  }
  expect(await balance()).toBe(before + 1);
  const { stderr } = await admin('credits', 'adjust', organization, 'deduct', '999', '--description', 'x');
  expect(stderr).not.toContain('repeat');
});

test('the request id that a client quotes leads an operator to the call, its organization, its deployment and its charge', async () => {
  await json('prices', 'set', 'sandbox-chat-mini', '--input-per-million-tokens-usd', '1000');
  const [deployment] = await json('deployments', 'list', '--model', 'sandbox-chat-mini');
  const { key, id: keyId } = await gateway.createKey(session);
  const call = { model: 'sandbox-chat-mini', messages: [{ role: 'user', content: 'Hello!' }] };
  const requestId = (await gateway.call('POST', '/v1/chat/completions', key, call)).headers.get('x-request-id')!;
  const found = await waitFor(
    async () => {
      const [one] = await json('calls', 'find', requestId);
      return one?.transaction_id && one;
    },
    { description: 'the charge of the call' },
  );
  expect(found).toMatchObject({
    tenant_id: organization,
    user_id: userId,
    api_key_id: keyId,
    model: 'sandbox-chat-mini',
    deployment_id: deployment.id,
    success: true,
    request_id: requestId,
  });
  expect(found.cost_usd).toBeGreaterThan(0);
  const charged = [{ organization, requests: 1, input_tokens: found.input_tokens, cost_usd: found.cost_usd }];
  expect(await json('prices', 'charges', found.price_id)).toMatchObject(charged);
  const refund = ['transactions', 'refund', organization, found.transaction_id, '--description', 'It was our fault.'];
  expect(await json(...refund)).toMatchObject({ amount_usd: found.cost_usd, reverses_id: found.transaction_id });

  expect(await json('calls', 'find', 'req_unknown')).toEqual([]);
  expect(await refusal('calls', 'find')).toEqual([2, "the call's request id is missing"]);
  // As after a leak: all that one key did.
  expect(await json('calls', 'list', organization, '--key', keyId)).toMatchObject([{ id: found.id }]);
  const ofAll: { id: string }[] = await json('calls', 'list', organization);
  expect(ofAll.map(({ id }) => id)).toContain(found.id);
  expect(await refusal('calls', 'list', uuidv7(), '--key', keyId)).toEqual([1, 'No such organization.']);
  // As its charge names it, and as after a complaint about a model.
  expect(await json('calls', 'find', found.id)).toEqual([found]);
  expect(await json('calls', 'list', '--model', 'sandbox-chat-mini', '--user', userId)).toEqual([found]);
  const ofModel = ['calls', 'list', organization, '--model', 'sandbox-chat-mini'];
  expect(await json(...ofModel, '--success', 'true', '--start-date', '2020-01-01')).toEqual([found]);
  expect(await json(...ofModel, '--success', 'false', '--deployment', deployment.id)).toEqual([]);
  expect(await json(...ofModel, '--end-date', '2020-01-01')).toEqual([]);
  const needed = [1, expect.stringContaining('success=false')];
  expect(await refusal('calls', 'list', '--deployment', deployment.id)).toEqual(needed);
  const { transaction_id, ...over } = found;
  const rest = (token: string) => gateway.call('GET', `/api/v1/admin/calls?request_id=${requestId}`, token);
  expect((await rest(session)).json).toMatchObject({ data: [over], pagination: { total: 1 } });
  expect((await rest(key)).status).toBe(403);
  const narrowed = `model=sandbox-chat-mini&user_id=${userId}&api_key_id=${keyId}&success=true&event_id=${found.id}`;
  const byAll = await gateway.call('GET', `/api/v1/admin/calls?${narrowed}&start_date=2020-01-01`, session);
  expect(byAll.json).toMatchObject({ data: [over], pagination: { total: 1 } });
  const paramOf = async (query: string) =>
    (await gateway.call('GET', `/api/v1/admin/calls?${query}`, session)).json.error?.param;
  for (const param of ['event_id', 'tenant_id', 'user_id', 'api_key_id', 'deployment_id']) {
    expect(await paramOf(`${param}=x`)).toBe(param);
  }
  expect(await paramOf('success=maybe')).toBe('success');
  expect(await paramOf('model=')).toBe('model');
  expect(await paramOf('start_date=today')).toBe('start_date');
  expect(await paramOf(`deployment_id=${uuidv7()}`)).toBe('deployment_id');
  expect(await paramOf('start_date=2026-07-01&end_date=2026-07-08')).toBe('start_date');
  const charge = `/api/v1/billing/documents/transactions?usage_event_id=${found.id}`;
  expect((await gateway.call('GET', charge, session)).json.data).toMatchObject([{ id: transaction_id }]);
});

test('a charge is refunded, and invoices are listed, paid and voided from a shell', async () => {
  await gateway.call('POST', '/api/v1/admin/models', session, { name: 'priced', operations: ['chat_completions'] });
  const price = await json('prices', 'set', 'priced', '--input-per-million-tokens-usd', '1');
  const elsewhere = (await json('organizations', 'create', 'payer@example.com', '--name', 'Payer')).organization;
  const events = [40, 75].map((days) =>
    usageEvent({
      id: v7({ msecs: Date.now() - days * 86_400_000 }),
      tenantId: elsewhere,
      userId,
      model: 'priced',
      priceVersionId: price.id,
      costNanoUsd: 5_000_000n,
    }),
  );
  const billing = gateway.gateway.switchboard.client('usage', BillingService);
  await billing.charge({ events }, { contextValues: callerContext(serviceCaller('usage')) });
  await finalizePastMonths(gateway);

  const [charge] = await json('transactions', 'list', elsewhere, '--type', 'usage');
  const refund = ['transactions', 'refund', elsewhere, charge.id, '--description', 'It was our fault.'];
  expect(await json(...refund, '--amount', '0.001')).toMatchObject({ amount_usd: 0.001, reverses_id: charge.id });
  expect(await json(...refund)).toMatchObject({ amount_usd: 0.004 });
  expect(await refusal(...refund, '--amount', '0')).toEqual([2, expect.stringContaining('above 0')]);

  const [newer, older] = await json('invoices', 'list', elsewhere, '--status', 'finalized');
  expect(await json('invoices', 'show', elsewhere, newer.id)).toMatchObject({
    id: newer.id,
    status: 'finalized',
    line_items: [{ model: 'priced', unit_price_usd: 1, amount_usd: 0.005 }],
  });
  expect(await refusal('invoices', 'show', organization, newer.id)).toEqual([1, 'No such invoice.']);
  expect(await json('invoices', 'find', newer.number)).toMatchObject({ organization: elsewhere, id: newer.id });
  expect(await json('organizations', 'list', '--search', newer.number)).toMatchObject([
    { id: elsewhere, account: { plan: { code: 'developer' }, receivable_usd: 0.01, funds: 'sufficient' } },
  ]);
  expect((await admin('organizations', 'list', '--standing', 'overdue')).stdout).toBe('none\n');
  expect(await json('invoices', 'void', elsewhere, newer.id)).toMatchObject({ status: 'voided' });
  expect(await json('invoices', 'pay', elsewhere, older.id)).toMatchObject({
    payment_status: 'paid',
    line_items: [{ model: 'priced', amount_usd: 0.005 }],
  });
  expect(await json('invoices', 'list', elsewhere, '--payment-status', 'paid')).toMatchObject([{ id: older.id }]);
  expect(await refusal('invoices', 'void', elsewhere, older.id)).toEqual([1, expect.stringContaining('paid')]);
  expect((await admin('invoices', 'list', elsewhere)).stdout).toMatch(/^ID +NUMBER +PERIOD_START .* TOTAL_USD\n/);
});

test('plans are put and assigned, and commitments created, from a shell', async () => {
  const put = ['plans', 'put', 'gold', 'Gold', '--payg', '--monthly-credit', '5', '--feature', 'a', '--feature', 'b'];
  const gold = {
    code: 'gold',
    payg_enabled: true,
    included: { monthly_credit_usd: 5, features: ['a', 'b'] },
    payment_terms_days: 30,
  };
  expect(await json(...put, '--requests', '7')).toMatchObject({ ...gold, own_rate_limits: { requests_per_minute: 7 } });
  // Due when they are issued, as the API allows too.
  expect(await json(...put, '--payment-terms-days', '0')).toMatchObject({ ...gold, payment_terms_days: 0 });
  expect(await refusal(...put, '--payment-terms-days', '366')).toEqual([
    2,
    '--payment-terms-days must be a whole number from 0 to 365',
  ]);
  // What is left out gets its default.
  expect(await json(...put)).toMatchObject({ ...gold, own_rate_limits: null });
  expect((await admin('plans', 'list')).stdout).toMatch(/^gold +Gold +true +5 +30 +600 +200000 +100$/m);
  const elsewhere = (await json('organizations', 'create', 'committed@example.com', '--name', 'Committed'))
    .organization;
  expect(await json('organizations', 'plan', elsewhere, 'gold')).toMatchObject({ plan: { code: 'gold' } });
  expect(await refusal('organizations', 'plan', elsewhere, 'golden')).toEqual([1, 'No such plan.']);
  const commit = ['commitments', 'create', elsewhere, '100', '2990-01-01', '2991-01-01'];
  const commitment = await json(...commit);
  expect(commitment).toMatchObject({ amount_usd: 100, period_start: '2990-01-01T00:00:00.000Z' });
  expect(await refusal(...commit)).toEqual([1, expect.stringContaining('already has a commitment')]);
  expect(await json('commitments', 'list', elsewhere)).toEqual([commitment]);
  const ended = await json('commitments', 'end', elsewhere, commitment.id);
  expect(Date.parse(ended.period_end)).toBeLessThanOrEqual(Date.now());
  expect(await json(...commit)).toMatchObject({ amount_usd: 100 });
});

test('a coupon is created, redeemed and disabled', async () => {
  const create = ['coupons', 'create', '3', '--redemptions', '2', '--credit-lifetime-days', '30'];
  const coupon = await json(...create, '--idempotency-key', 'autumn');
  expect(await json(...create, '--idempotency-key', 'autumn')).toEqual(coupon);
  const redeemed = await gateway.call('POST', '/api/v1/billing/coupons/redeem', session, { code: coupon.code });
  expect(redeemed.status).toBe(201);
  const [listed] = await json('coupons', 'list');
  expect(listed).toMatchObject({ id: coupon.id, redemptions: 1, redemptions_max: 2 });
  expect(listed.code).not.toBe(coupon.code);
  expect((await json('coupons', 'disable', coupon.id)).disabled_at).not.toBeNull();
});

test('people are invited to an organization, and invitations withdrawn, from a shell', async () => {
  const made = await json('invitations', 'create', organization, 'guest@example.com', '--role', 'admin');
  expect(made).toMatchObject({ email: 'guest@example.com', role: 'admin', status: 'pending' });
  expect(await json('invitations', 'list', organization, '--status', 'pending')).toEqual([made]);
  expect((await json('mail', 'list', '--status', 'queued')).map(({ to }: { to: string }) => to)).toContain(made.email);
  await json('invitations', 'withdraw', organization, made.id);
  expect(await json('invitations', 'list', organization, '--status', 'withdrawn')).toMatchObject([{ id: made.id }]);
  expect(await refusal('invitations', 'create', organization, 'g@example.com', '--role', 'boss')).toEqual([
    2,
    '--role must be one of member, admin, owner',
  ]);

  // Whose organization does not exist yet.
  const { invitation: id } = await json('organizations', 'create', 'founder@example.com');
  expect(await json('invitations', 'list', '--status', 'pending')).toMatchObject([
    { id, email: 'founder@example.com' },
  ]);
  await json('invitations', 'withdraw', id);
  expect(await json('invitations', 'list')).toMatchObject([{ id, status: 'withdrawn' }]);
  // A variable that a script left unset names no organization.
  const unset = [2, "the organization's id is missing"];
  expect(await refusal('invitations', 'list', '')).toEqual(unset);
  expect(await refusal('invitations', 'withdraw', '', id)).toEqual(unset);
});

test('an upstream is registered, its deployment stopped and started, its model granted and deleted, from a shell', async () => {
  await using upstream = await startUpstreamSimulator({ models: ['acme-chat'] });
  const baseUrl = upstream.url;
  expect(await json('upstreams', 'register', baseUrl, '--operations', 'chat_completions,completions')).toMatchObject([
    { id: 'acme-chat', operations: ['chat_completions', 'completions'] },
  ]);
  for (const [option, wrong, allowed] of [
    ['--dialect', 'x', 'openai, vllm'],
    ['--operations', 'embeddings,chat', 'chat_completions, completions, embeddings'],
  ] as const) {
    expect(await refusal('upstreams', 'register', baseUrl, option, wrong)).toEqual([
      2,
      expect.stringContaining(`${option} must be one of ${allowed}`),
    ]);
  }
  const [deployment] = await json('deployments', 'list', '--model', 'acme-chat');
  expect(deployment).toMatchObject({ base_url: baseUrl, enabled: true });
  expect(await json('deployments', 'stop', deployment.id)).toMatchObject({ status: 'Stopped', enabled: false });
  expect(await json('deployments', 'start', deployment.id)).toMatchObject({ enabled: true });
  await gateway.call('PATCH', '/api/v1/admin/models/acme-chat', session, { visibility: 'private' });
  const grant = await json('grants', 'create', organization, 'acme-chat');
  expect(await json('grants', 'list', '--model', 'acme-chat')).toEqual([grant]);
  expect(await json('models', 'show', 'acme-chat')).toMatchObject({
    visibility: 'private',
    deployments: [{ id: deployment.id }],
    granted_tenant_ids: [organization],
  });
  expect((await admin('models', 'show', 'acme-chat')).stdout).toMatch(/^deployments\.0\.enabled +true$/m);
  await json('grants', 'revoke', organization, 'acme-chat');
  expect(await json('grants', 'list', '--model', 'acme-chat')).toEqual([]);
  await json('deployments', 'delete', deployment.id);
  expect(await json('deployments', 'list', '--model', 'acme-chat')).toEqual([]);
  await json('models', 'delete', 'acme-chat');
  expect(await refusal('models', 'show', 'acme-chat')).toEqual([1, 'No such model.']);
});

test('a price is set for later, with the rates of a catalog file', async () => {
  const later = ['prices', 'set', 'sandbox-chat', '--from', '2999-01-01'];
  expect(
    await json(...later, '--cached-input-per-million-tokens-usd', '0.000000001', '--per-request-usd', '2'),
  ).toMatchObject({
    effective_from: '2999-01-01T00:00:00.000Z',
    cached_input_per_million_tokens_usd: 1e-9,
    per_request_usd: 2,
    output_per_million_tokens_usd: 0,
  });
  expect(await json('prices', 'list', '--model', 'sandbox-chat')).toHaveLength(2);
  expect(await refusal(...later)).toEqual([2, 'a price needs at least one rate; 0 means free of charge']);
  expect(await refusal(...later, '--per-request-usd', '1000.1')).toEqual([
    2,
    '`1000.1` is not an amount in USD from 0, at most 1000, with at most nine decimals',
  ]);
});

test('a price says what it charged when its model is deleted too, with jobs begun before it, and calls of replicas that had not heard of the next', async () => {
  const model = { name: 'mispriced', operations: ['chat_completions'] };
  const make = async () => {
    await gateway.call('POST', '/api/v1/admin/models', session, model);
    return (await json('prices', 'set', model.name, '--per-request-usd', '1')).id as string;
  };
  const price = await make();
  const usage = gateway.gateway.switchboard.client('inference', UsageService);
  const hoursAgo = (hours: number) => Date.now() - hours * 3_600_000;
  // By the clock of one replica, which was cut off, hours have passed since.
  const events = [0, 20, -2].map((hours) =>
    testEvent(hoursAgo(hours), { tenantId: organization, userId, model: model.name, priceVersionId: price }),
  );
  await usage.record({ events }, { contextValues: callerContext(serviceCaller('inference')) });
  const charged = [{ organization, requests: 3, cost_usd: 0.000003 }];
  expect(await json('prices', 'charges', price)).toMatchObject(charged);
  await json('prices', 'set', model.name, '--per-request-usd', '2');
  expect(await json('prices', 'charges', price)).toMatchObject(charged);
  await json('models', 'delete', model.name);
  expect(await json('prices', 'charges', price.toUpperCase())).toMatchObject(charged);
  expect(await json('prices', 'charges', await make())).toEqual([]);
  expect(await json('prices', 'charges', price)).toMatchObject(charged);
  for (const none of [uuidv7(), 'x']) {
    for (const verb of ['charges', 'withdraw']) {
      expect(await refusal('prices', verb, none)).toEqual([1, 'No such price.']);
    }
  }
});

test('jobs, keys, reminders and signing keys are listed by their state from a shell', async () => {
  const { key, id } = await gateway.createKey(session, { name: 'for jobs' });
  const management = await gateway.createKey(session, { name: 'for reports', key_type: 'management' });
  const body = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }], background: true };
  const job = await gateway.call('POST', '/v1/chat/completions', key, body);
  await expect
    .poll(() => json('jobs', 'list', '--status', 'completed', '--model', 'sandbox-chat'))
    .toMatchObject([{ id: job.json.id, tenant_id: organization, api_key_id: id }]);
  expect(await json('jobs', 'list', '--organization', uuidv7())).toEqual([]);
  expect(await json('jobs', 'show', job.json.id)).toMatchObject({
    id: job.json.id,
    tenant_id: organization,
    attempts: 1,
  });
  expect(await refusal('jobs', 'show', 'job_1')).toEqual([1, 'No such job.']);
  const byId = await gateway.call('GET', `/api/v1/admin/jobs?job_id=${job.json.id}`, session);
  expect(byId.json).toMatchObject({ data: [{ id: job.json.id }], pagination: { total: 1 } });
  expect(await json('keys', 'list', '--type', 'management')).toMatchObject([{ id: management.id, type: 'management' }]);
  const confined = { ip_allowlist: ['192.0.2.0/24'], spend_cap_usd: 0.5 };
  await gateway.call('PATCH', `/api/v1/api-keys/${id}`, session, confined);
  expect(await json('keys', 'show', id)).toMatchObject({ ...confined, key_type: 'inference', status: 'active' });
  expect((await admin('keys', 'show', id)).stdout).toMatch(/^ip_allowlist +192\.0\.2\.0\/24$/m);
  expect(await refusal('keys', 'show', uuidv7())).toEqual([1, 'No such API key.']);
  await json('keys', 'revoke', id);
  expect(await json('keys', 'list', '--status', 'revoked')).toMatchObject([{ id, status: 'revoked' }]);
  expect(await refusal('keys', 'list', '--status', 'constructor')).toEqual([
    2,
    '--status must be one of active, expired, revoked',
  ]);
  expect(await json('reminders', 'list', '--status', 'failed')).toEqual([]);
  expect(await json('signing-keys', 'list')).toMatchObject([{ status: 'active' }]);
});

test('columns stay aligned under names in wide characters', async () => {
  const names = [
    '深圳智能 cafe\u0301',
    'ｆｕｌｌ',
    '한국어',
    'かな・カナ',
    'ﾊﾝｶｸ',
    '👩\u200d👩\u200d👧 👍🏽',
    'علی\u200cرضا',
    'plain',
  ];
  const widths = [13, 8, 6, 10, 4, 5, 6, 5];
  for (const [index, name] of names.entries())
    await json('organizations', 'create', `wide-${index}@example.com`, '--name', `${name} wide`);
  const lines = (await admin('organizations', 'list', '--search', ' wide')).stdout.split('\n').slice(1, -1);
  const gaps = lines.map((line) => /wide( +)active/.exec(line)![1]!.length).reverse();
  expect(gaps.map((gap, index) => gap + widths[index]!)).toEqual(names.map(() => 15));
});

test('a command that has no secret looks for it in DATA_DIR, and leaves none there that no gateway has', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'mg-admin-'));
  await using child = shell(['users', 'list'], { SERVICE_SECRET: '', DATA_DIR: dataDir });
  expect(await child.exited()).toMatchObject({ code: 1 });
  expect(child.output).toMatch(
    /^SERVICE_SECRET is missing, and so is .*service_secret: set it to the gateway's, or DATA_DIR to where/,
  );
  expect(readdirSync(dataDir)).toEqual([]);
  rmSync(dataDir, { recursive: true });
});

test('help needs neither secrets nor a folder to keep them', async () => {
  await using child = startProcess({
    script: 'services/cmd/admin.ts',
    args: ['help', 'credits'],
    env: { NODE_ENV: 'production', SERVICE_SECRET: undefined, DATA_DIR: '/proc/nowhere' },
  });
  expect(await child.exited(), child.output).toMatchObject({ code: 0 });
  expect(child.output).toContain('credits adjust <organization> <add|deduct> <usd>');
});
