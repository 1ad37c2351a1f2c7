import { decodeJwt } from 'jose';
import { v7 } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { usageEvent } from '../../services/billing/fixtures/test-billing.ts';
import { finalizePastMonths } from '../browser/support/world/money.ts';
import { ClockAhead } from '../support/clock-ahead.ts';
import { type Answer, owner as firstUser, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { startUpstreamSimulator, type UpstreamSimulator } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

/** The address of everyone here; the test itself connects as a trusted proxy. */
const address = '198.51.100.7';
const password = 'Correct-horse-1';
const nextPassword = 'Correct-horse-2';
const sandboxChat = { dialect: 'sandbox', upstream_model: 'sandbox-chat' };

type Person = { id: string; tenantId: string; token: string; sessionId: string; refreshToken: string };
type Actor = { type: 'user' | 'operator' | 'api_key'; id: string };
type Event = {
  type: string;
  tenant_id: string | null;
  actor: Actor & { ip: string };
  target: { type: string; id: string };
  request_id: string;
};

const clock = new ClockAhead();
let gateway: TestGateway;
let simulator: UpstreamSimulator;
/** The first user, an operator. As owner of an organization, the same person is `owner`. */
let operator: Actor;
let owner: Actor;
let home: string;
let session: string;
/** The events that must be found for what was done so far. */
const done: Event[] = [];

beforeAll(async () => {
  simulator = await startUpstreamSimulator();
  gateway = await startTestGateway({ clock, env: { TRUSTED_PROXIES: '127.0.0.1' } });
  const first = await signIn(firstUser.email);
  session = first.token;
  home = first.tenantId;
  operator = { type: 'operator', id: first.id };
  owner = { type: 'user', id: first.id };
});
afterAll(async () => {
  await gateway?.[Symbol.asyncDispose]();
  await simulator?.close();
});

/** A call below /api/v1 from the address; anything but success fails the test. */
async function call(method: string, path: string, body?: object, token = session): Promise<Answer> {
  const answer = await tryCall(method, path, body, token);
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
  return answer;
}

const tryCall = (method: string, path: string, body: object | undefined, token: string): Promise<Answer> =>
  gateway.call(method, `/api/v1${path}`, token, body, { 'x-forwarded-for': address });

/** Notes that the request just answered must appear as an event of this type. */
function tells(
  type: string,
  actor: Actor,
  target: [type: string, id: string],
  answer: Answer,
  tenantId?: string | null,
) {
  done.push({
    type,
    tenant_id: tenantId === undefined ? home : tenantId,
    actor: { ...actor, ip: address },
    target: { type: target[0], id: target[1] },
    request_id: answer.headers.get('x-request-id')!,
  });
}

/** Expects exactly one event of its type for each noted request, once the relays have passed it on. */
async function expectTold(): Promise<void> {
  const noted = done.splice(0);
  const keyOf = ({ request_id, type }: Event) => `${type} ${request_id}`;
  const keys = new Set(noted.map(keyOf));
  const inOrder = (events: Event[]) => events.toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
  const told = async () => {
    const { json } = await call('GET', '/admin/audit-events?limit=100');
    const events = (json.data as Event[]).filter((event) => keys.has(keyOf(event)));
    return inOrder(
      events.map(({ type, tenant_id, actor, target, request_id }) => ({ type, tenant_id, actor, target, request_id })),
    );
  };
  await expect.poll(told, { interval: 100 }).toEqual(inOrder(noted));
}

/** What the events of a type about a target say was changed, newest first. */
const changesOf = (type: string, target: string) => async () => {
  const { json } = await call('GET', `/admin/audit-events?type=${type}&target_id=${target}`);
  return json.data.map(({ changes }: { changes: object }) => changes);
};

async function signIn(email: string, secret: string = password): Promise<Person> {
  const answer = await call('POST', '/auth/login', { email, password: secret }, '');
  const { access_token: token, refresh_token: refreshToken, user } = answer.json;
  const { sid: sessionId } = decodeJwt<{ sid: string }>(token);
  const person = { id: user.id, tenantId: user.tenant_id, token, sessionId, refreshToken };
  const actor: Actor = { type: 'user', id: person.id };
  tells('session_started', actor, ['session', sessionId], answer, person.tenantId);
  return person;
}

async function tokenMailedTo(email: string): Promise<[token: string, answer: Answer]> {
  const answer = await call('GET', `/admin/mail?search=${encodeURIComponent(email)}`);
  return [/\?token=([\w-]+)/.exec(answer.json.data[0].text)![1]!, answer];
}

/** A new member of the first organization. */
async function join(email: string): Promise<Person> {
  const invited = await call('POST', '/invitations', { email });
  tells('invitation_created', owner, ['invitation', invited.json.id], invited);
  const [token] = await tokenMailedTo(email);
  const names = { first_name: 'Mia', last_name: 'Member' };
  const accepted = await call('POST', '/auth/accept-invite', { token, password, ...names }, '');
  tells('invitation_accepted', { type: 'user', id: accepted.json.user.id }, ['invitation', invited.json.id], accepted);
  return signIn(email);
}

test('each change of a session or a password is recorded as one audit event', async () => {
  const email = 'mia@example.com';
  const first = await join(email);
  const mia: Actor = { type: 'user', id: first.id };
  const self: [string, string] = ['user', mia.id];
  tells('profile_updated', mia, self, await call('PATCH', '/profile', { first_name: 'Maria' }, first.token));
  const ended = await call('POST', '/auth/logout', undefined, first.token);
  tells('session_ended', mia, ['session', first.sessionId], ended);

  const second = await signIn(email);
  const passwords = { current_password: password, new_password: nextPassword };
  tells('password_changed', mia, self, await call('PUT', '/auth/password', passwords, second.token));
  tells('password_reset_requested', mia, self, await call('POST', '/auth/password/forgot', { email }, ''));
  const [token, shown] = await tokenMailedTo(email);
  tells('mail_link_shown', operator, self, shown);
  tells('password_reset', mia, self, await call('POST', '/auth/password/reset', { token, password }, ''));

  const third = await signIn(email);
  const wanted = { email: 'maria@example.com', current_password: password };
  tells('email_change_requested', mia, self, await call('POST', '/auth/email/change', wanted, third.token));
  const [emailToken, shownAgain] = await tokenMailedTo(wanted.email);
  tells('mail_link_shown', operator, self, shownAgain);
  tells('email_changed', mia, self, await call('POST', '/auth/email/confirm', { token: emailToken }, third.token));
  let refreshToken = third.refreshToken;
  for (let round = 0; round < 2; round += 1) {
    const refreshed = await call('POST', '/auth/refresh', { refresh_token: refreshToken }, '');
    refreshToken = refreshed.json.refresh_token;
  }
  const reused = await tryCall('POST', '/auth/refresh', { refresh_token: third.refreshToken }, '');
  expect(reused.status).toBe(401);
  tells('refresh_token_reused', mia, ['session', third.sessionId], reused);
  await expectTold();
});

test('each change of an organization or its people is recorded as one audit event', async () => {
  const email = 'olga@example.com';
  const made = await call('POST', '/admin/organizations', { name: 'Second', owner_email: email });
  const { organization, invitation } = made.json;
  const second: [string, string] = ['organization', organization.id];
  tells('organization_created', operator, second, made, organization.id);
  tells('invitation_created', operator, ['invitation', invitation.id], made, organization.id);
  const path = `/admin/organizations/${organization.id}`;
  const renamed = await call('PATCH', path, { name: 'Renamed' });
  tells('organization_updated', operator, second, renamed, organization.id);
  tells('organization_suspended', operator, second, await call('POST', `${path}/suspend`), organization.id);
  tells('organization_restored', operator, second, await call('POST', `${path}/restore`), organization.id);
  const quota = await call('PUT', `${path}/key-quota`, { keys_per_user: 5 });
  tells('key_quota_updated', operator, second, quota, organization.id);

  tells('organization_updated', owner, ['organization', home], await call('PATCH', '/organization', { name: 'First' }));
  const max = await join('max@example.com');
  tells('member_updated', owner, ['user', max.id], await call('PATCH', `/members/${max.id}`, { role: 'admin' }));
  tells('user_updated', operator, ['user', max.id], await call('PATCH', `/admin/users/${max.id}`, { operator: true }));
  const unwanted = await call('POST', '/invitations', { email: 'unwanted@example.com' });
  const withdrawn = await call('DELETE', `/invitations/${unwanted.json.id}`);
  tells('invitation_withdrawn', owner, ['invitation', unwanted.json.id], withdrawn);
  const earlier = await call('POST', '/invitations', { email: 'twice@example.com' });
  clock.aheadMs += 60_000;
  const later = await call('POST', '/invitations', { email: 'twice@example.com' });
  tells('invitation_withdrawn', owner, ['invitation', earlier.json.id], later);

  // Accepting an invitation to create an organization creates it.
  await call('POST', '/admin/organizations', { owner_email: 'fay@example.com' });
  const [token] = await tokenMailedTo('fay@example.com');
  const fields = { token, password, first_name: 'Fay', last_name: 'Founder', organization_name: 'Third' };
  const founded = await call('POST', '/auth/accept-invite', fields, '');
  const { tenant_id: third, id } = founded.json.user;
  tells('organization_created', { type: 'user', id }, ['organization', third], founded, third);
  await expectTold();
});

test('each change of an API key is recorded as one audit event', async () => {
  const made = await call('POST', '/api-keys', { name: 'audited' });
  const key: [string, string] = ['api_key', made.json.id];
  const path = `/api-keys/${made.json.id}`;
  tells('api_key_created', owner, key, made);
  tells('api_key_updated', owner, key, await call('PATCH', path, { name: 'renamed' }));
  tells('api_key_scope_updated', owner, key, await call('PATCH', path, { scopes: ['models:list'] }));
  tells('api_key_rotated', owner, key, await call('POST', `${path}/rotate`));
  const limits = await call('PUT', `/admin${path.replace('api-keys', 'keys')}/rate-limits`, { requests_per_minute: 5 });
  tells('api_key_rate_limits_updated', operator, key, limits);
  tells('api_key_revoked', operator, key, await call('POST', `/admin${path.replace('api-keys', 'keys')}/revoke`));
  const other = await call('POST', '/api-keys', { name: 'deleted' });
  tells('api_key_deleted', owner, ['api_key', other.json.id], await call('DELETE', `/api-keys/${other.json.id}`));
  await expectTold();
});

test('each change of a limit, a plan or money is recorded as one audit event', async () => {
  const path = `/admin/organizations/${home}`;
  const organization: [string, string] = ['organization', home];
  tells('cost_limit_updated', owner, ['user', owner.id], await call('PUT', '/profile/cost-limit', { limit_usd: 5 }));
  const fields = { name: 'budgets', key_type: 'management', scopes: ['budgets:update_own'] };
  const { id, key } = (await call('POST', '/api-keys', fields)).json;
  const removed = await call('DELETE', '/profile/cost-limit', undefined, key);
  tells('cost_limit_updated', { type: 'api_key', id }, ['user', owner.id], removed);
  const capped = await call('PUT', '/billing/payg-spend-cap', { limit_usd: 5 });
  tells('payg_spend_cap_updated', owner, organization, capped);
  tells('payg_spend_cap_updated', owner, organization, await call('DELETE', '/billing/payg-spend-cap'));

  const plan = { name: 'Team', payg_enabled: true };
  tells('plan_created', operator, ['plan', 'team'], await call('PUT', '/admin/plans/team', plan), null);
  const dearer = { ...plan, payment_terms_days: 14 };
  tells('plan_updated', operator, ['plan', 'team'], await call('PUT', '/admin/plans/team', dearer), null);
  tells('plan_assigned', operator, organization, await call('PUT', `${path}/plan`, { code: 'team' }));
  const limited = await call('PATCH', path, { rate_limits: { requests_per_minute: 5000 } });
  tells('organization_rate_limits_updated', operator, organization, limited);

  const [paid, voided] = await invoicesOfPastMonths();
  tells('invoice_paid', operator, ['invoice', paid!], await call('POST', `${path}/invoices/${paid}/pay`));
  tells('invoice_voided', operator, ['invoice', voided!], await call('POST', `${path}/invoices/${voided}/void`));
  const [charge] = (await call('GET', '/billing/documents/transactions?type=usage')).json.data;
  const refunded = await call('POST', `${path}/transactions/${charge.id}/refund`, { description: 'sorry' });
  tells('charge_refunded', operator, ['transaction', charge.id], refunded);
  const granted = await call('POST', `${path}/credits`, { amount_usd: 5 });
  tells('credit_granted', operator, ['lot', granted.json.id], granted);
  const adjusted = await call('POST', `${path}/adjustments`, { amount_usd: 1, description: 'ours to give' });
  tells('adjustment_posted', operator, ['transaction', adjusted.json.id], adjusted);
  const period = { period_start: daysFromNow(-1), period_end: daysFromNow(30) };
  const committed = await call('POST', `${path}/commitments`, { amount_usd: 100, ...period });
  const commitment: [string, string] = ['commitment', committed.json.id];
  tells('commitment_created', operator, commitment, committed);
  tells('commitment_ended', operator, commitment, await call('POST', `${path}/commitments/${commitment[1]}/end`));

  const coupon = await call('POST', '/admin/coupons', { code: 'WELCOME', amount_usd: 5 });
  const target: [string, string] = ['coupon', coupon.json.id];
  tells('coupon_created', operator, target, coupon, null);
  const redeemed = await call('POST', '/billing/coupons/redeem', { code: 'WELCOME' });
  tells('coupon_redeemed', owner, target, redeemed);
  tells('coupon_disabled', operator, target, await call('POST', `/admin/coupons/${coupon.json.id}/disable`), null);
  // There is nothing more to disable. An event of this would be told before that of the next coupon.
  await call('POST', `/admin/coupons/${coupon.json.id}/disable`);
  const next = await call('POST', '/admin/coupons', { code: 'NEXT', amount_usd: 5 });
  tells('coupon_created', operator, ['coupon', next.json.id], next, null);
  await expectTold();
  expect(await changesOf('coupon_disabled', coupon.json.id)()).toHaveLength(1);
});

test('the event of given credit says everything that was given: to whom it was promised, until when and why, and by which coupon', async () => {
  const redeemUntil = daysFromNow(30);
  const promise = { amount_usd: 5, redemptions_max: 1000, redeem_until: redeemUntil, credit_lifetime_days: 90 };
  const coupon = await call('POST', '/admin/coupons', { code: 'THOUSANDS', ...promise });
  const { code } = (await call('GET', '/admin/coupons')).json.data[0];
  await expect
    .poll(changesOf('coupon_created', coupon.json.id))
    .toEqual([{ before: null, after: { code, ...promise } }]);
  await call('POST', '/billing/coupons/redeem', { code: 'THOUSANDS' });
  await expect
    .poll(changesOf('coupon_redeemed', coupon.json.id))
    .toEqual([{ before: null, after: { code, amount_usd: 5 } }]);
  const credit = {
    amount_usd: 5,
    source: 'purchase',
    expires_at: redeemUntil,
    description: 'by card',
    payment_id: 'pi_1',
  };
  const granted = await call('POST', `/admin/organizations/${home}/credits`, credit);
  await expect.poll(changesOf('credit_granted', granted.json.id)).toEqual([{ before: null, after: credit }]);
});

test('the event of an adjustment says whether the organization could be made to owe it', async () => {
  const dispute = { amount_usd: -1, description: 'a lost dispute', allow_negative_balance: true };
  const adjusted = await call('POST', `/admin/organizations/${home}/adjustments`, dispute);
  await expect.poll(changesOf('adjustment_posted', adjusted.json.id)).toEqual([{ before: null, after: dispute }]);
});

const daysFromNow = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();

/** The invoices of two past months with usage. */
async function invoicesOfPastMonths(): Promise<string[]> {
  await call('POST', '/admin/models', { name: 'priced', operations: ['chat_completions'] });
  const price = await call('POST', '/admin/prices', { model: 'priced', input_per_million_tokens_usd: 1 });
  const events = [40, 75].map((days) =>
    usageEvent({
      id: v7({ msecs: Date.now() - days * 86_400_000 }),
      tenantId: home,
      userId: owner.id,
      model: 'priced',
      priceVersionId: price.json.id,
      costNanoUsd: 5_000_000n,
    }),
  );
  const billing = gateway.gateway.switchboard.client('usage', BillingService);
  await billing.charge({ events }, { contextValues: callerContext(serviceCaller('usage')) });
  await finalizePastMonths(gateway);
  const { json } = await call('GET', '/billing/documents/invoices?status=finalized');
  return json.data.map((invoice: { id: string }) => invoice.id);
}

test('an event has only the changed fields, as the API spells them, and there is none if nothing changed', async () => {
  const { id, token } = await join('dana@example.com');
  for (const phone of ['+1 555', '+1 555', null]) await call('PATCH', '/profile', { phone }, token);
  for (const limit_usd of [5, 5, 6]) await call('PUT', '/profile/cost-limit', { limit_usd }, token);
  for (const name of ['Quiet', 'Quiet', 'Quieter']) {
    await call('PUT', '/admin/plans/quiet', { name, payg_enabled: true });
  }
  const key = (await call('POST', '/api-keys', { name: 'spelled' })).json.id;
  const lists = { model_allowlist: ['sandbox-chat'], ip_allowlist: ['10.0.0.0/8'] };
  await call('PATCH', `/api-keys/${key}`, { ...lists, spend_cap_usd: 5 });
  await expect.poll(changesOf('profile_updated', id), { interval: 100 }).toEqual([
    { before: { phone: '+1 555' }, after: { phone: null } },
    { before: { phone: null }, after: { phone: '+1 555' } },
  ]);
  await expect.poll(changesOf('cost_limit_updated', id), { interval: 100 }).toEqual([
    { before: { limit_usd: 5 }, after: { limit_usd: 6 } },
    { before: { limit_usd: null }, after: { limit_usd: 5 } },
  ]);
  await expect
    .poll(changesOf('plan_updated', 'quiet'), { interval: 100 })
    .toEqual([{ before: { name: 'Quiet' }, after: { name: 'Quieter' } }]);
  const unlimited = { model_allowlist: null, ip_allowlist: null, spend_cap_usd: null };
  await expect
    .poll(changesOf('api_key_scope_updated', key), { interval: 100 })
    .toEqual([{ before: unlimited, after: { ...lists, spend_cap_usd: 5 } }]);
  await expectTold();
});

test.each([
  ['a limit of one’s own', '/profile/cost-limit', { limit_usd: 77 }],
  ['a quota of keys', 'key-quota', { keys_per_user: 77 }],
  ['a new plan', '/admin/plans/raced', { name: 'Raced', payg_enabled: true }],
  ['a plan', '/admin/plans/raced', { name: 'Raced again', payg_enabled: true }],
])('%s written by many at once is recorded as one audit event', async (_what, path, body) => {
  const url = path.startsWith('/') ? path : `/admin/organizations/${home}/${path}`;
  const answers = await Promise.all(Array.from({ length: 8 }, () => call('PUT', url, body)));
  const requests = new Set(answers.map(({ headers }) => headers.get('x-request-id')));
  const isHandedOn = async () =>
    !/^gateway_outbox_waiting\{.*outbox="audit_events"\} [1-9]/m.test((await gateway.call('GET', '/metrics')).text);
  await waitFor(isHandedOn, { description: 'all events to be handed on' });
  const { data } = (await call('GET', '/admin/audit-events?limit=100')).json;
  expect((data as Event[]).filter(({ request_id }) => requests.has(request_id))).toHaveLength(1);
});

test('each change of the catalog is recorded as one audit event', async () => {
  const model: [string, string] = ['model', 'audited'];
  const made = await call('POST', '/admin/models', {
    name: 'audited',
    operations: ['chat_completions'],
    visibility: 'private',
  });
  tells('model_created', operator, model, made, null);
  const renamed = await call('PATCH', '/admin/models/audited', { display_name: 'Renamed' });
  tells('model_updated', operator, model, renamed, null);
  const granted = await call('POST', '/admin/grants', { model: 'audited', tenant_id: home });
  tells('model_granted', operator, model, granted, null);
  const revoked = await call('DELETE', `/admin/grants?model=audited&tenant_id=${home}`);
  tells('model_grant_revoked', operator, model, revoked, null);
  tells(
    'price_set',
    operator,
    model,
    await call('POST', '/admin/prices', { model: 'audited', per_request_usd: 1 }),
    null,
  );
  const later = { model: 'audited', per_request_usd: 2, effective_from: daysFromNow(30) };
  const upcoming = await call('POST', '/admin/prices', later);
  tells('price_set', operator, model, upcoming, null);
  const withdrawn = await call('DELETE', `/admin/prices/${upcoming.json.id}`);
  tells('price_withdrawn', operator, model, withdrawn, null);

  const added = await call('POST', '/admin/deployments', { model: 'audited', ...sandboxChat });
  const deployment: [string, string] = ['deployment', added.json.id];
  const path = `/admin/deployments/${added.json.id}`;
  tells('deployment_created', operator, deployment, added, null);
  tells('deployment_updated', operator, deployment, await call('PATCH', path, { weight: 2 }), null);
  tells('deployment_deleted', operator, deployment, await call('DELETE', path), null);

  const announced = await call('POST', '/admin/retirements', { model: 'audited', retirement_note: 'It is old.' });
  tells('model_retirement_announced', operator, model, announced, null);
  const dated = await call('PATCH', '/admin/retirements/audited', { sunset_at: daysFromNow(30) });
  tells('model_sunset_date_set', operator, model, dated, null);
  tells('model_retirement_withdrawn', operator, model, await call('DELETE', '/admin/retirements/audited'), null);
  tells('model_deleted', operator, model, await call('DELETE', '/admin/models/audited'), null);

  const registered = await call('POST', '/admin/upstreams', { base_url: simulator.url });
  tells('upstream_registered', operator, ['upstream', simulator.url], registered, null);
  const longUrl = `http://127.0.0.1:${simulator.port}${'/.'.repeat(200)}/v1`;
  const atLength = await call('POST', '/admin/upstreams', { base_url: longUrl });
  tells('upstream_registered', operator, ['upstream', longUrl.slice(0, 255)], atLength, null);
  await expectTold();
});

test('an event of the catalog has only the changed fields, as the API spells them', async () => {
  await call('POST', '/admin/models', { name: 'spelled', operations: ['chat_completions'] });
  await call('PATCH', '/admin/models/spelled', { context_window: 1000 });
  await expect
    .poll(changesOf('model_updated', 'spelled'), { interval: 100 })
    .toEqual([{ before: { context_window: null }, after: { context_window: 1000 } }]);

  const { json: price } = await call('POST', '/admin/prices', { model: 'spelled', input_per_million_tokens_usd: 2.5 });
  const { model: _model, created_at: _createdAt, ...fields } = price;
  await expect.poll(changesOf('price_set', 'spelled'), { interval: 100 }).toEqual([{ before: null, after: fields }]);

  await call('POST', '/admin/retirements', { model: 'spelled', retirement_note: 'It is old.' });
  const sunset_at = daysFromNow(30);
  await call('PATCH', '/admin/retirements/spelled', { sunset_at });
  await expect
    .poll(changesOf('model_sunset_date_set', 'spelled'), { interval: 100 })
    .toEqual([{ before: { sunset_at: null }, after: { sunset_at } }]);

  const settings = { model: 'spelled', ...sandboxChat, sandbox: { latency_ms: 5 } };
  const { id } = (await call('POST', '/admin/deployments', settings)).json;
  await call('PATCH', `/admin/deployments/${id}`, { weight: 2, total_timeout_ms: 1000 });
  await expect
    .poll(changesOf('deployment_created', id), { interval: 100 })
    .toMatchObject([{ before: null, after: { ...settings, weight: 1, total_timeout_ms: 600_000 } }]);
  await expect
    .poll(changesOf('deployment_updated', id), { interval: 100 })
    .toEqual([{ before: { weight: 1, total_timeout_ms: 600_000 }, after: { weight: 2, total_timeout_ms: 1000 } }]);
});

test('a new signing key is recorded as one audit event', async () => {
  const rotated = await call('POST', '/admin/signing-keys/rotate');
  const { kid } = rotated.json.data.find(({ status }: { status: string }) => status === 'active');
  tells('signing_key_rotated', operator, ['signing_key', kid], rotated, null);
  await expectTold();
});
