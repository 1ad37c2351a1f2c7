import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { usageEvent } from '../../services/billing/fixtures/test-billing.ts';
import { finalizePastMonths } from '../browser/support/world/money.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { rowsOf } from '../support/postgres.ts';

let gateway: TestGateway;
let operator: string;
let id: string;

beforeAll(async () => {
  gateway = await startTestGateway();
  operator = await gateway.login();
  id = (await gateway.call('GET', '/api/v1/organization', operator)).json.id;
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const admin = (method: string, path: string, body?: unknown) =>
  gateway.call(method, `/api/v1/admin/organizations/${path}`, operator, body);

test('changing an organization returns the organization as it now is', async () => {
  const limits = { requests_per_minute: 7, tokens_per_minute: 8, concurrent_requests: 9 };
  const changed = await admin('PATCH', id, { name: 'Changed', plan: 'prepaid', key_quota: null, rate_limits: limits });
  expect(changed.status, changed.text).toBe(200);
  expect(changed.json).toMatchObject({
    name: 'Changed',
    plan: 'prepaid',
    key_quota: null,
    rate_limits: limits,
    effective_rate_limits: limits,
    member_count: 1,
  });
  expect(changed.json).toEqual((await admin('GET', id)).json);
});

test.each([
  ['an unknown plan', { name: 'Renamed', key_quota: 1, plan: 'does-not-exist' }, 404, 'plan'],
  [
    'a name of spaces',
    { name: '   ', key_quota: 1, plan: 'developer', rate_limits: { requests_per_minute: 1 } },
    400,
    'name',
  ],
])('a change refused for %s changes nothing', async (_what, body, status, param) => {
  const before = (await admin('GET', id)).json;
  const answer = await admin('PATCH', id, body);
  expect([answer.status, answer.json.error?.param], answer.text).toEqual([status, param]);
  expect((await admin('GET', id)).json).toEqual(before);
});

test('a change interrupted half-way is completed by the same request, and audited once', async () => {
  await admin('PATCH', id, { name: 'Before', plan: 'developer', key_quota: 5, rate_limits: null });
  const database = new pg.Client({ connectionString: gateway.env.databaseUrl! });
  await database.connect();
  const eventsFrom = new Date().toISOString();
  await database.query(`
    create function keys.refuse() returns trigger language plpgsql as $$ begin raise exception 'no quota is taken'; end $$;
    create trigger refuse before insert or update on keys.quotas execute function keys.refuse()`);
  const body = { name: 'After', plan: 'prepaid', key_quota: 6, rate_limits: { requests_per_minute: 70 } };
  expect((await admin('PATCH', id, body)).status).toBe(500);
  await database.query('drop function keys.refuse cascade');
  await database.end();

  const repeated = await admin('PATCH', id, body);
  expect(repeated.status, repeated.text).toBe(200);
  expect(repeated.json).toMatchObject({ ...body, rate_limits: { requests_per_minute: 70 } });
  const told = async () => {
    const { data } = (await gateway.call('GET', `/api/v1/admin/audit-events?tenant_id=${id}&limit=100`, operator)).json;
    return (data as { type: string; occurred_at: string }[])
      .filter(({ occurred_at }) => occurred_at >= eventsFrom)
      .map(({ type }) => type)
      .sort();
  };
  await expect
    .poll(told)
    .toEqual(['key_quota_updated', 'organization_rate_limits_updated', 'organization_updated', 'plan_assigned']);
});

test('two operators who set different rate limits at the same moment both succeed', async () => {
  await admin('PATCH', id, { rate_limits: null });
  for (let limit = 1; limit <= 20; limit += 1) {
    const changes = [{ requests_per_minute: limit }, { tokens_per_minute: limit }, { concurrent_requests: limit }];
    await Promise.all(changes.map((rate_limits) => admin('PATCH', id, { rate_limits })));
    expect((await admin('GET', id)).json.rate_limits).toEqual(Object.assign({}, ...changes));
  }
  const left = await admin('PATCH', id, { rate_limits: { tokens_per_minute: null } });
  expect(left.json.rate_limits).toEqual({ requests_per_minute: 20, tokens_per_minute: null, concurrent_requests: 20 });
});

test('no organization is created for an owner who already has an account and could not accept the invitation', async () => {
  const path = '/api/v1/admin/organizations';
  const answer = await gateway.call('POST', path, operator, { name: 'Second', owner_email: 'Owner@Example.com' });
  expect([answer.status, answer.json.error]).toMatchObject([409, { param: 'owner_email', code: 'conflict' }]);
  expect((await gateway.call('GET', `${path}?search=Second`, operator)).json.data).toEqual([]);
});

test('an operator gives an owner to an organization that has none', async () => {
  const path = '/api/v1/admin/organizations';
  const mistyped = { name: 'Third', owner_email: 'ownr@example.com' };
  const { organization, invitation } = (await gateway.call('POST', path, operator, mistyped)).json;
  const invitations = `${organization.id}/invitations`;
  const listed = await admin('GET', `${invitations}?status=pending`);
  expect([listed.status, listed.json.data]).toEqual([200, [invitation]]);
  expect((await admin('DELETE', `${id}/invitations/${invitation.id}`)).status).toBe(404);
  expect((await admin('DELETE', `${invitations}/${invitation.id}`)).status).toBe(204);
  expect((await admin('GET', invitations)).json.data).toEqual([{ ...invitation, status: 'withdrawn' }]);

  const becomesOwner = async (email: string) => {
    const invited = await admin('POST', invitations, { email, role: 'owner' });
    expect([invited.status, invited.json]).toMatchObject([201, { email, role: 'owner', status: 'pending' }]);
    const mail = await gateway.call('GET', `/api/v1/admin/mail?search=${email}`, operator);
    const accepted = await gateway.call('POST', '/api/v1/auth/accept-invite', undefined, {
      token: /\?token=([\w-]+)/.exec(mail.json.data[0].text)![1],
      password: 'Str0ng-password',
      first_name: 'An',
      last_name: 'Owner',
    });
    for (const withSecret of [mail, accepted]) expect(withSecret.headers.get('cache-control')).toBe('no-store');
    expect([accepted.status, accepted.json]).toMatchObject([
      201,
      { organization: { id: organization.id, role: 'owner' } },
    ]);
    return accepted.json.user.id;
  };
  const first = await becomesOwner('owner-of-third@example.com');
  const again = await admin('POST', invitations, { email: 'owner-of-third@example.com', role: 'owner' });
  expect([again.status, again.json.error]).toMatchObject([409, { param: 'email' }]);
  expect((await gateway.call('PATCH', `/api/v1/admin/users/${first}`, operator, { is_active: false })).status).toBe(
    200,
  );
  await becomesOwner('heir-of-third@example.com');

  const told = await gateway.call('GET', `/api/v1/admin/audit-events?tenant_id=${organization.id}&limit=100`, operator);
  const events = (told.json.data as { type: string; actor: { type: string } }[]).map(({ type, actor }) => [
    type,
    actor.type,
  ]);
  expect(events.filter(([type]) => type !== 'invitation_accepted').toReversed()).toEqual([
    ['organization_created', 'operator'],
    ['invitation_created', 'operator'],
    ['invitation_withdrawn', 'operator'],
    ['invitation_created', 'operator'],
    ['user_updated', 'operator'],
    ['invitation_created', 'operator'],
  ]);
  for (const [method, body] of [['GET'], ['POST', { email: 'nobody@example.com' }]] as const) {
    expect((await admin(method, `${randomUUID()}/invitations`, body)).status).toBe(404);
  }
});

test('an operator sees who spent most, who can spend no more and who is overdue, and finds an organization by the number of an invoice', async () => {
  const call = async (method: string, path: string, body?: unknown) => {
    const { status, text, json } = await gateway.call(method, `/api/v1/admin/${path}`, operator, body);
    expect(status, text).toBeLessThan(300);
    return json;
  };
  const create = async (name: string): Promise<string> =>
    (await call('POST', 'organizations', { name, owner_email: `${name}@money.example` })).organization.id;
  const [prepaid, most, less] = [await create('Money-1'), await create('Money-2'), await create('Money-3')];
  await call('PUT', `organizations/${prepaid}/plan`, { code: 'prepaid' });
  await call('POST', 'models', { name: 'priced', operations: ['chat_completions'] });
  const price = await call('POST', 'prices', { model: 'priced', input_per_million_tokens_usd: 1 });
  const charge = (tenantId: string, costUsd: number, daysAgo = 0) => ({
    ...usageEvent({ tenantId, costNanoUsd: BigInt(costUsd) * 1_000_000_000n, atMs: Date.now() - daysAgo * 86_400_000 }),
    ...{ model: 'priced', priceVersionId: price.id },
  });
  const billing = gateway.gateway.switchboard.client('usage', BillingService);
  const events = [charge(most, 9), charge(less, 8), charge(less, 3, 40)];
  await billing.charge({ events }, { contextValues: callerContext(serviceCaller('usage')) });
  await finalizePastMonths(gateway);
  const database = gateway.env.databaseUrl!;
  const due =
    "update billing.invoices set due_date = '2020-01-31' where tenant_id = $1 and status = 2 returning number";
  const [{ number }] = (await rowsOf(database, due, [less])) as [{ number: string }];
  const written = `INV-${number.padStart(6, '0')}`;

  const list = async (query: string) => {
    const { data, pagination } = await call('GET', `organizations?${query}`);
    expect(pagination.total).toBe(data.length);
    return (data as { name: string; account: Record<string, unknown> | null }[]).map(({ name, account }) => ({
      name,
      ...account,
    }));
  };
  const namesIn = async (query: string) => (await list(query)).map(({ name }) => name);
  expect(await list('search=Money')).toMatchObject([
    { name: 'Money-3', spent_usd: 8, left_usd: null, funds: 'sufficient', receivable_usd: 3, overdue_usd: 3 },
    { name: 'Money-2', spent_usd: 9, credit_usd: 0, overdue_usd: 0, plan: { code: 'developer', name: 'Developer' } },
    { name: 'Money-1', spent_usd: 0, left_usd: 0, funds: 'exhausted', plan: { code: 'prepaid', name: 'Prepaid' } },
  ]);
  expect(await namesIn('standing=spending')).toEqual(['Money-2', 'Money-3']);
  expect(await namesIn('standing=spending&search=-3')).toEqual(['Money-3']);
  expect(await namesIn('standing=exhausted&search=Money')).toEqual(['Money-1']);
  expect(await namesIn('standing=exhausted&status=suspended')).toEqual([]);
  expect(await namesIn('standing=low')).toEqual([]);
  expect(await namesIn('standing=overdue')).toEqual(['Money-3']);

  expect(await namesIn(`search=${written}`)).toEqual(['Money-3']);
  expect(await namesIn('search=inv999999')).toEqual([]);
  expect(await call('GET', `invoices/${written.toLowerCase()}`)).toMatchObject({ number: written, tenant_id: less });
  for (const unknown of ['INV-999999', 'x']) {
    const { status, json } = await gateway.call('GET', `/api/v1/admin/invoices/${unknown}`, operator);
    expect([status, json.error.message]).toEqual([404, 'No such invoice.']);
  }

  // Organizations can be found, and suspended, while Billing fails.
  await rowsOf(database, 'alter table billing.credit_months rename to away');
  const { data } = await call('GET', 'organizations?search=Money-2');
  expect(data).toMatchObject([{ name: 'Money-2', account: null }]);
  await rowsOf(database, 'alter table billing.away rename to credit_months');
});

test('an operator sees and withdraws the invitation of an owner whose organization does not exist yet', async () => {
  const call = (method: string, path: string, body?: unknown) =>
    gateway.call(method, `/api/v1/admin/${path}`, operator, body);
  const invited = async (ownerEmail: string, name?: string) => {
    const { json } = await call('POST', 'organizations', { owner_email: ownerEmail, name });
    const mail = await call('GET', `mail?search=${ownerEmail}`);
    return { ...json, token: /\?token=([\w-]+)/.exec(mail.json.data[0].text)![1] };
  };
  const accept = (token: string) =>
    gateway.call('POST', '/api/v1/auth/accept-invite', undefined, {
      token,
      password: 'Str0ng-password',
      organization_name: 'Of a founder',
    });
  const listed = async (status: string) => (await call('GET', `invitations?status=${status}`)).json.data;
  const mistyped = await invited('foundr@example.com');
  const founder = await invited('founder@example.com');
  const named = await invited('owner-of-fourth@example.com', 'Fourth');
  expect(mistyped.organization).toBeNull();
  expect(await listed('pending')).toEqual([founder.invitation, mistyped.invitation]);

  // That to an organization is withdrawn under its organization alone.
  expect((await call('DELETE', `invitations/${named.invitation.id}`)).status).toBe(404);
  for (let time = 0; time < 2; time += 1) {
    expect((await call('DELETE', `invitations/${mistyped.invitation.id}`)).status).toBe(204);
  }
  expect(await listed('withdrawn')).toEqual([{ ...mistyped.invitation, status: 'withdrawn' }]);
  expect((await accept(mistyped.token)).json.error).toMatchObject({ code: 'invalid_code' });
  const { data } = (await call('GET', 'audit-events?type=invitation_withdrawn&limit=1')).json;
  expect(data).toMatchObject([
    { tenant_id: null, actor: { type: 'operator' }, target: { type: 'invitation', id: mistyped.invitation.id } },
  ]);

  expect((await accept(founder.token)).status).toBe(201);
  const late = await call('DELETE', `invitations/${founder.invitation.id}`);
  expect([late.status, late.json.error.code]).toEqual([409, 'conflict']);
  expect(await listed('pending')).toEqual([]);
});

test('an organization that does not exist has no key quota and gets none', async () => {
  const nobody = randomUUID();
  const answers = [
    await admin('PUT', `${nobody}/key-quota`, { keys_per_user: 3 }),
    await admin('PATCH', nobody, { key_quota: 3 }),
    await admin('GET', `${nobody}/key-quota`),
  ];
  for (const { status, json } of answers) {
    expect([status, json.error.message]).toEqual([404, 'No such organization.']);
  }
  const rows = await rowsOf(gateway.env.databaseUrl!, 'select from keys.quotas where tenant_id = $1', [nobody]);
  expect(rows).toEqual([]);
});

test('the audit chain of an organization that does not exist is not reported as intact but as not found', async () => {
  const path = `/api/v1/admin/audit-events/verification?tenant_id=${randomUUID()}`;
  const { status, json } = await gateway.call('GET', path, operator);
  expect([status, json.error?.message]).toEqual([404, 'No such organization.']);
});

test('a type of audit events that the list cannot have is refused with those it can have', async () => {
  for (const [path, other] of [
    ['/api/v1/audit-events', 'model_created'],
    ['/api/v1/admin/audit-events', 'session_start'],
  ]) {
    const { status, json } = await gateway.call('GET', `${path}?type=${other}`, operator);
    expect([status, json.error?.param]).toEqual([400, 'type']);
    expect(json.error.message).toContain('session_started');
    expect((await gateway.call('GET', `${path}?type=session_started`, operator)).json.data).not.toEqual([]);
  }
});

test.each([
  'jobs?tenant_id=',
  'keys?tenant_id=',
  'keys?user_id=',
  'users?tenant_id=',
  'audit-events?tenant_id=',
  'audit-events/verification?tenant_id=',
  'audit-events?actor_id=',
  'audit-events?target_id=',
  'calls?request_id=',
  'jobs?job_id=',
  'jobs?model=',
  'mail?kind=',
  '../jobs?endpoint=',
  '../usage/history?request_id=',
  '../usage/api-keys/any/analytics?model_name=',
])('an empty id or name in a filter is refused rather than answered with everything: %s', async (path) => {
  const { status, json } = await gateway.call('GET', `/api/v1/admin/${path}`, operator);
  expect([status, json.error?.param]).toEqual([400, /\w+(?==$)/.exec(path)![0]]);
});
