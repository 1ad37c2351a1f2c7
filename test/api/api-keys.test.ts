import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { uuidv7 } from '#shared/ids.ts';
import { makeKeySecret } from '#shared/key-secret.ts';
import { type Answer, startTestGateway, type TestGateway } from '../support/gateway.ts';

let gateway: TestGateway;
let session: string;

beforeAll(async () => {
  gateway = await startTestGateway();
  session = await gateway.login();
});
afterAll(async () => gateway?.[Symbol.asyncDispose]());

const post = (body: unknown, token = session) => gateway.call('POST', '/api/v1/api-keys', token, body);
const get = (path: string, token = session) => gateway.call('GET', path, token);
const patch = (id: string, body: unknown) => gateway.call('PATCH', `/api/v1/api-keys/${id}`, session, body);
const put = (path: string, body: unknown) => gateway.call('PUT', path, session, body);

/** The status, code and param of an error, with its message. */
const refusal = ({ status, json }: Answer) => ({ status, ...json.error });

async function organizationId(): Promise<string> {
  return (await get('/api/v1/auth/profile')).json.organization.id;
}

beforeAll(async () => {
  // The tests create more keys than the default quota of a user.
  const path = `/api/v1/admin/organizations/${await organizationId()}/key-quota`;
  const byDefault = { keys_per_user: 'default', effective_keys_per_user: 10 };
  expect((await put(path, { keys_per_user: 'default' })).json).toEqual(byDefault);
  const unlimited = { keys_per_user: 'unlimited', effective_keys_per_user: null };
  expect((await put(path, { keys_per_user: 'unlimited' })).json).toEqual(unlimited);
  expect((await get(path)).json).toEqual(unlimited);
});

const inferenceScopes = [
  'inference:chat',
  'inference:completions',
  'inference:embeddings',
  'inference:images',
  'inference:audio',
  'models:list',
  'models:retrieve',
  'jobs:stats_own',
  'jobs:read_own',
  'jobs:cancel_own',
];

describe('creating a key', () => {
  test('answers 201 with the secret, only this once, and never stores it', async () => {
    const created = await post({ name: 'my key' });
    expect(created.status).toBe(201);
    expect(created.headers.get('cache-control')).toBe('no-store');
    expect(created.json).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'my key',
      key_type: 'inference',
      key: expect.stringMatching(/^sk-proj-[0-9A-Za-z]{49}$/),
      scopes: inferenceScopes,
      created_at: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/),
      expires_at: null,
      model_allowlist: null,
      ip_allowlist: null,
      spend_cap_usd: null,
      budget: null,
    });
    const { key, id } = created.json;
    const item = await get(`/api/v1/api-keys/${id}`);
    expect(item.json).toEqual({
      id,
      name: 'my key',
      key_type: 'inference',
      key_preview: `sk-proj-${key.slice(8, 12)}...${key.slice(-4)}`,
      scopes: inferenceScopes,
      created_at: created.json.created_at,
      rotated_at: null,
      expires_at: null,
      last_used_at: null,
      usage_count: 0,
      is_active: true,
      revoked_at: null,
      model_allowlist: null,
      ip_allowlist: null,
      spend_cap_usd: null,
      budget: null,
    });
    expect(item.text).not.toContain(key);
  });

  test('a management key gets its default scopes, and constraints are kept exactly as given', async () => {
    const { json } = await post({
      name: 'automation',
      key_type: 'management',
      expires_at: '2099-01-31',
      model_allowlist: ['sandbox-chat'],
      ip_allowlist: ['10.0.0.0/8', '2001:DB8::1'],
      spend_cap_usd: 0.000012345,
    });
    // The first user is an owner, so the scope for the breakdown is among them.
    expect(json.scopes).toContain('usage:read_breakdown');
    expect(json.scopes).not.toContain('billing:read_cycles');
    expect(json).toMatchObject({
      expires_at: '2099-01-31T00:00:00.000Z',
      model_allowlist: ['sandbox-chat'],
      ip_allowlist: ['10.0.0.0/8', '2001:DB8::1'],
      spend_cap_usd: 0.000012345,
    });
  });

  test('what a list names twice is kept once, by POST and PATCH alike', async () => {
    const lists = { scopes: ['models:list'], model_allowlist: ['sandbox-chat'], ip_allowlist: ['192.0.2.1'] };
    const twice = Object.fromEntries(Object.entries(lists).map(([name, [entry]]) => [name, [entry, entry]]));
    const created = await post({ name: 'repetitive', ...twice });
    expect(created.status, created.text).toBe(201);
    expect(created.json).toMatchObject(lists);
    const changed = await patch(created.json.id, twice);
    expect(changed.status, changed.text).toBe(200);
    expect(changed.json).toMatchObject(lists);
  });

  test('retired scope names are stored as given', async () => {
    const { json } = await post({ name: 'old', key_type: 'management', scopes: ['billing:read_cycles'] });
    expect(json.scopes).toEqual(['billing:read_cycles']);
  });

  const grants: Readonly<Record<string, readonly string[]>> = {
    'billing:read_cycles': ['/billing/documents/invoices', '/billing/documents/transactions'],
    'billing:read_invoices': ['/billing/documents/invoices', '/billing/documents/transactions'],
    'billing:read_summary': ['/billing/wallet', '/billing/commitment', '/plan/current'],
    'billing:read_current': ['/billing/wallet', '/billing/commitment', '/plan/current'],
    'usage:read_report': [
      '/usage/report?start_date=2026-11-01&end_date=2026-11-02',
      `/usage/api-keys/${uuidv7()}/analytics`,
    ],
  };
  test.each(Object.keys(grants))('%s grants what it says, and nothing else', async (scope) => {
    const { key } = await gateway.createKey(session, { key_type: 'management', scopes: [scope] });
    for (const path of new Set(Object.values(grants).flat())) {
      const answer = await gateway.call('GET', `/api/v1${path}`, key);
      if (grants[scope]!.includes(path)) expect(answer.status, `${path}: ${answer.text}`).toBe(200);
      else expect(refusal(answer), path).toMatchObject({ status: 403, code: 'missing_scope' });
    }
  });

  test.each<[string, object, string | null]>([
    ['no name', {}, 'name'],
    ['a name of 1 character', { name: 'x' }, 'name'],
    ['a name of 256 characters', { name: 'x'.repeat(256) }, 'name'],
    ['a name that is no text', { name: 12 }, 'name'],
    ['a name of a megabyte', { name: 'x'.repeat(900_000) }, 'name'],
    ['a NUL in the name', { name: 'a\0b' }, 'name'],
    ['a name of blanks', { name: '   \u00a0  ' }, 'name'],
    ['a line break in the name', { name: 'one\r\ntwo' }, 'name'],
    ['a name that turns the writing direction', { name: 'live \u202eyek' }, 'name'],
    ['an unknown type', { name: 'ab', key_type: 'admin' }, 'key_type'],
    ['no scopes', { name: 'ab', scopes: [] }, 'scopes'],
    ['an unknown scope', { name: 'ab', scopes: ['*'] }, 'scopes'],
    ['a scope of the other type', { name: 'ab', scopes: ['usage:read_current'] }, 'scopes'],
    ['scopes that are no list', { name: 'ab', scopes: 'inference:chat' }, 'scopes'],
    ['an expiry in the past', { name: 'ab', expires_at: '2001-01-01' }, 'expires_at'],
    ['a day that does not exist', { name: 'ab', expires_at: '2099-02-31' }, 'expires_at'],
    ['a time without a zone', { name: 'ab', expires_at: '2099-02-01T00:00:00' }, 'expires_at'],
    ['a time that is a number', { name: 'ab', expires_at: 4102444800 }, 'expires_at'],
    ['bad addresses', { name: 'ab', ip_allowlist: ['10.0.0.1', '010.0.0.1', '10.0.0.1/8'] }, 'ip_allowlist'],
    ['a negative cap', { name: 'ab', spend_cap_usd: -1 }, 'spend_cap_usd'],
    ['a cap beyond what can be stored', { name: 'ab', spend_cap_usd: 9_999_999_999 }, 'spend_cap_usd'],
    ['a cap that is text', { name: 'ab', spend_cap_usd: '5' }, 'spend_cap_usd'],
    ['a misspelled model', { name: 'ab', model_allowlist: ['sandbox-chat', 'sandbox-chatt'] }, 'model_allowlist'],
    ['a repeated model', { name: 'ab', model_allowlist: ['m', 'm'] }, 'model_allowlist'],
    ['a foreign organization', { name: 'ab', tenant_id: '00000000-0000-0000-0000-000000000000' }, 'tenant_id'],
    ['a role', { name: 'ab', role: 'owner' }, 'role'],
    ['a use count', { name: 'ab', usage_count: 5 }, 'usage_count'],
    ['is_active', { name: 'ab', is_active: false }, 'is_active'],
    ['an object for text', { name: { $ne: null } }, 'name'],
  ])('refuses %s with 400 naming the field, and writes nothing', async (_what, body, param) => {
    const before = (await get('/api/v1/api-keys')).json.pagination.total;
    expect(refusal(await post(body))).toMatchObject({ status: 400, param });
    expect((await get('/api/v1/api-keys')).json.pagination.total).toBe(before);
  });

  test.each(['[]', '"text"', 'null', '{"name":"ab","__proto__":{"x":1}}', '{', ''])(
    'refuses the body %s with 400',
    async (body) => {
      expect((await post(body)).status).toBe(400);
    },
  );

  test('names each invalid address', async () => {
    const { message } = refusal(await post({ name: 'ab', ip_allowlist: ['10.0.0.1', '10.1', '10.0.0.1/8'] }));
    expect(message).toContain('`10.1`, `10.0.0.1/8`');
    expect(message).not.toContain('`10.0.0.1`');
  });

  test('trims blanks around a name', async () => {
    expect((await post({ name: '  a name\u00a0' })).json.name).toBe('a name');
  });

  test("counts a name's length in characters, not in UTF-16 units", async () => {
    expect((await post({ name: '😀😀' })).status).toBe(201);
    expect((await post({ name: '😀'.repeat(255) })).status).toBe(201);
    expect((await post({ name: '😀' })).status).toBe(400);
  });
});

describe('an Idempotency-Key', () => {
  const postWith = (key: string, body: object, path = '/api/v1/api-keys') =>
    gateway.call('POST', path, session, body, { 'idempotency-key': key });

  test('returns the same key and secret again', async () => {
    const first = await postWith('one', { name: 'once' });
    const second = await postWith('one', { name: 'once' });
    expect(first.json.key).toMatch(/^sk-proj-/);
    expect(second.json).toEqual(first.json);
    expect((await get('/api/v1/api-keys?search=once')).json.pagination.total).toBe(1);
  });

  test('is refused with another body', async () => {
    await postWith('two', { name: 'first body' });
    const second = await postWith('two', { name: 'second body' });
    expect(second.status).toBe(400);
    expect(second.json.error.code).toBe('idempotency_key_reused');
  });

  test.each([
    ['that is empty', ''],
    ['that is longer than 255 characters', 'x'.repeat(256)],
    ['with a blank in it', 'a b'],
    ['with a letter beyond ASCII', 'é'],
  ])('%s is refused by name, and nothing is made', async (what, key) => {
    const refused = await postWith(key, { name: `key ${what}` });
    expect([refused.status, refused.json.error.param]).toEqual([400, 'Idempotency-Key']);
    expect((await get(`/api/v1/api-keys?search=key ${what}`)).json.pagination.total).toBe(0);
  });

  test('creates one key for simultaneous requests', async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => postWith('three', { name: 'at once' })));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
    expect(new Set(answers.map(({ json }) => json.key)).size).toBe(1);
  });

  test('returns the same key and secret again when a model of its allowlist has gone meanwhile', async () => {
    const model = 'acme/gone-meanwhile';
    const admin = (method: string, path: string, body?: object) =>
      gateway.call(method, `/api/v1/admin${path}`, session, body);
    const settings = { operations: ['embeddings'], visibility: 'public' };
    expect((await admin('POST', '/models', { name: model, ...settings })).status).toBe(201);
    const body = { name: 'allows one', model_allowlist: [model] };
    const first = await postWith('five', body);
    expect(first.status, first.text).toBe(201);
    expect((await admin('DELETE', `/models/${model}`)).status).toBe(204);
    const again = await postWith('five', body);
    expect([again.status, again.json]).toEqual([201, first.json]);
    expect((await postWith('five', { ...body, name: 'another' })).json.error.code).toBe('idempotency_key_reused');
    expect((await postWith('six', body)).json.error.param).toBe('model_allowlist');
    expect((await get('/api/v1/api-keys?search=allows one')).json.pagination.total).toBe(1);
  });

  test('covers a rotation', async () => {
    const { id } = await gateway.createKey(session);
    const rotate = () => postWith('four', { grace_period_seconds: 60 }, `/api/v1/api-keys/${id}/rotate`);
    const first = await rotate();
    expect(first.json.key).toMatch(/^sk-proj-/);
    expect((await rotate()).json).toEqual(first.json);
  });
});

describe('the list', () => {
  test('is paged, newest first, and filtered by type, status and search, without wildcards', async () => {
    const names = ['list %a', 'list _b', 'list c'];
    for (const name of names) await post({ name, key_type: name.endsWith('c') ? 'management' : 'inference' });
    const all = (await get('/api/v1/api-keys?search=LIST&limit=2')).json;
    expect(all.data.map(({ name }: { name: string }) => name)).toEqual(['list c', 'list _b']);
    expect(all.pagination).toEqual({ page: 1, limit: 2, total: 3, total_pages: 2, has_next: true, has_prev: false });
    const rest = (await get('/api/v1/api-keys?search=list&limit=2&page=2')).json;
    expect(rest.data.map(({ name }: { name: string }) => name)).toEqual(['list %a']);
    expect(rest.pagination).toMatchObject({ has_next: false, has_prev: true });
    const total = async (query: string) => (await get(`/api/v1/api-keys?${query}`)).json.pagination.total;
    expect(await total('search=list&key_type=management')).toBe(1);
    expect(await total('search=list&status=active')).toBe(3);
    expect(await total('search=list&status=expired')).toBe(0);
    expect(await total(`search=${encodeURIComponent('%')}`)).toBe(1);
    expect(await total(`search=${encodeURIComponent('_')}`)).toBe(1);
    expect(await total(`search=${encodeURIComponent('%_'.repeat(100))}`)).toBe(0);
  });

  test.each(['why?', 'really??', String.raw`\?`, String.raw`a\b'?"c`, '$1 :name ? ?'])(
    'finds a key called %s by that, and no other',
    async (name) => {
      await post({ name });
      const found = (await get(`/api/v1/api-keys?search=${encodeURIComponent(name.toUpperCase())}`)).json;
      expect(found.data?.map((key: { name: string }) => key.name)).toEqual([name]);
    },
  );

  test('says how many keys the user has and may have, whatever the filter', async () => {
    const { json } = await get('/api/v1/api-keys?search=nothing-like-it');
    expect(json.data).toEqual([]);
    const { total } = (await get('/api/v1/api-keys')).json.pagination;
    expect(json.quota).toEqual({ used: total, limit: null });
  });

  test('is filtered by the moment before which keys expire, and to those with a spend cap', async () => {
    const at = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
    await post({ name: 'Filtered soon', expires_at: at(3) });
    await post({ name: 'Filtered later', expires_at: at(30), spend_cap_usd: 1 });
    await post({ name: 'Filtered never', spend_cap_usd: 0 });
    const names = async (query: string) =>
      (await get(`/api/v1/api-keys?search=Filtered&${query}`)).json.data.map(({ name }: { name: string }) => name);
    expect(await names(`expires_before=${at(7)}`)).toEqual(['Filtered soon']);
    expect(await names(`expires_before=${at(31)}`)).toEqual(['Filtered later', 'Filtered soon']);
    expect(await names('has_spend_cap=true')).toEqual(['Filtered never', 'Filtered later']);
    expect(await names(`has_spend_cap=true&expires_before=${at(31)}`)).toEqual(['Filtered later']);
  });

  test.each([
    ...['page=0', 'page=-1', 'page=x', 'limit=101', 'limit=0', 'status=revoked', 'key_type=x'],
    ...['expires_before=soon', 'has_spend_cap=no', 'has_spend_cap=false'],
  ])('refuses %s with 400 and the parameter', async (query) => {
    expect(refusal(await get(`/api/v1/api-keys?${query}`))).toMatchObject({
      status: 400,
      param: query.split('=')[0],
    });
  });
});

test('an allowlist accepts the models that the organization can use, and keeps those that it once could', async () => {
  const operations = ['chat_completions'];
  const admin = async (method: string, path: string, body?: object) => {
    const answer = await gateway.call(method, `/api/v1/admin${path}`, session, body);
    expect(answer.status, answer.text).toBeLessThan(300);
  };
  const tenant_id = await organizationId();
  await admin('POST', '/models', { name: 'acme/secret', operations, visibility: 'private' });
  await admin('POST', '/models', { name: 'acme/old', operations });
  const unknownModel = (model: string) => ({
    status: 400,
    type: 'invalid_request_error',
    param: 'model_allowlist',
    code: 'invalid_value',
    message: `Invalid value for \`model_allowlist\`: your organization has no model \`${model}\`.`,
  });
  const secret = { name: 'secret', model_allowlist: ['acme/secret'] };
  expect(refusal(await post(secret))).toEqual(unknownModel('acme/secret'));
  await admin('POST', '/grants', { model: 'acme/secret', tenant_id });
  expect((await post(secret)).status).toBe(201);

  const { id } = await gateway.createKey(session, { model_allowlist: ['acme/old'] });
  await admin('DELETE', '/models/acme%2Fold');
  expect((await patch(id, { model_allowlist: ['acme/old', 'sandbox-chat'] })).json.model_allowlist).toEqual([
    'acme/old',
    'sandbox-chat',
  ]);
  expect(refusal(await patch(id, { model_allowlist: ['acme/old', 'acme/new'] }))).toEqual(unknownModel('acme/new'));
  expect((await patch(id, { model_allowlist: ['sandbox-chat'] })).status).toBe(200);
  expect(refusal(await patch(id, { model_allowlist: ['acme/old'] }))).toEqual(unknownModel('acme/old'));
});

describe('PATCH', () => {
  test('changes what is named, keeps what is absent, clears what is null or empty', async () => {
    const { id } = await gateway.createKey(session, { ip_allowlist: ['10.0.0.0/8'], spend_cap_usd: 5 });
    const changed = await patch(id, { name: 'renamed', model_allowlist: ['sandbox-chat'], spend_cap_usd: 0 });
    expect(changed.status).toBe(200);
    expect(changed.json).toMatchObject({
      name: 'renamed',
      model_allowlist: ['sandbox-chat'],
      ip_allowlist: ['10.0.0.0/8'],
      spend_cap_usd: 0,
    });
    const cleared = await patch(id, { model_allowlist: [], ip_allowlist: null, spend_cap_usd: null });
    expect(cleared.json).toMatchObject({
      name: 'renamed',
      model_allowlist: null,
      ip_allowlist: null,
      spend_cap_usd: null,
    });
    expect((await get(`/api/v1/api-keys/${id}`)).json).toEqual(cleared.json);
  });

  test.each<[object, string]>([
    [{ scopes: [] }, 'scopes'],
    [{ scopes: null }, 'scopes'],
    [{ name: null }, 'name'],
    [{ scopes: ['usage:read_current'] }, 'scopes'],
    [{ key_type: 'management' }, 'key_type'],
    [{ user_id: 'x' }, 'user_id'],
    [{ expires_at: '2001-01-01' }, 'expires_at'],
    [{ ip_allowlist: ['10.0.0.0/33'] }, 'ip_allowlist'],
  ])('refuses %j', async (body, param) => {
    const { id } = await gateway.createKey(session);
    const before = (await get(`/api/v1/api-keys/${id}`)).json;
    expect(refusal(await patch(id, body))).toMatchObject({ status: 400, param });
    expect((await get(`/api/v1/api-keys/${id}`)).json).toEqual(before);
  });

  test('takes effect with the next request', async () => {
    const { id, key } = await gateway.createKey(session);
    expect((await get('/v1/models', key)).status).toBe(200);
    await patch(id, { scopes: ['inference:chat'] });
    expect(refusal(await get('/v1/models', key))).toMatchObject({
      status: 403,
      message: expect.stringContaining('models:list'),
    });
    await patch(id, { scopes: ['models:list'], ip_allowlist: ['192.0.2.0/24'] });
    expect((await get('/v1/models', key)).status).toBe(403);
    await patch(id, { ip_allowlist: ['127.0.0.1'] });
    expect((await get('/v1/models', key)).status).toBe(200);
  });
});

describe('rotation', () => {
  test('creates a new secret; the old one ends at once, or with its grace period', async () => {
    const { id, key } = await gateway.createKey(session);
    const graced = await gateway.call('POST', `/api/v1/api-keys/${id}/rotate`, session, { grace_period_seconds: 60 });
    expect([graced.status, graced.headers.get('cache-control')]).toEqual([200, 'no-store']);
    expect(Date.parse(graced.json.previous_key_expires_at)).toBeGreaterThan(Date.now() + 50_000);
    expect((await get('/v1/models', key)).status).toBe(200);
    const ended = await gateway.call('POST', `/api/v1/api-keys/${id}/rotate`, session);
    expect(ended.json.previous_key_expires_at).toBeNull();
    expect((await get('/v1/models', key)).status).toBe(401);
    expect((await get('/v1/models', graced.json.key)).status).toBe(401);
    expect((await get('/v1/models', ended.json.key)).status).toBe(200);
    expect((await get(`/api/v1/api-keys/${id}`)).json.key_preview).toContain(ended.json.key.slice(-4));
  });

  test('is remembered with its time, so that what rotates old secrets can run again', async () => {
    const { id } = await gateway.createKey(session);
    const rotatedAt = async () => (await get(`/api/v1/api-keys/${id}`)).json.rotated_at;
    expect(await rotatedAt()).toBeNull();
    const beforeMs = Date.now();
    await gateway.call('POST', `/api/v1/api-keys/${id}/rotate`, session, { grace_period_seconds: 60 });
    const at = await rotatedAt();
    expect(Date.parse(at)).toBeGreaterThanOrEqual(beforeMs);
    expect((await gateway.call('PATCH', `/api/v1/api-keys/${id}`, session, { name: 'renamed' })).json.rotated_at).toBe(
      at,
    );
  });

  test('with a grace period is a conflict while five secrets are valid; without one it ends them all', async () => {
    const { id } = await gateway.createKey(session);
    const rotate = (grace_period_seconds: number) =>
      gateway.call('POST', `/api/v1/api-keys/${id}/rotate`, session, { grace_period_seconds });
    for (let count = 2; count <= 5; count++) expect((await rotate(3_600)).status).toBe(200);
    expect(refusal(await rotate(3_600))).toMatchObject({
      status: 409,
      type: 'invalid_request_error',
      message: expect.stringContaining('5 valid secrets'),
    });
    expect((await rotate(0)).status).toBe(200);
    expect((await rotate(3_600)).status).toBe(200);
  });

  test.each([-1, 2_592_001, 1.5, '60'])('refuses a grace period of %j', async (seconds) => {
    const { id } = await gateway.createKey(session);
    const answer = await gateway.call('POST', `/api/v1/api-keys/${id}/rotate`, session, {
      grace_period_seconds: seconds,
    });
    expect(refusal(answer)).toMatchObject({ status: 400, param: 'grace_period_seconds' });
  });
});

describe('operators', () => {
  test('list any key and revoke it; it stays in its owner’s list', async () => {
    const { id, key } = await gateway.createKey(session, { name: 'to be revoked' });
    const listed = (await get(`/api/v1/admin/keys?search=${encodeURIComponent('to be revoked')}`)).json;
    expect(listed.data[0]).toMatchObject({ id, status: 'active', tenant_id: await organizationId() });
    expect(JSON.stringify(listed)).not.toContain(key);
    const revoked = await gateway.call('POST', `/api/v1/admin/keys/${id}/revoke`, session, { reason: 'leaked' });
    expect(revoked.json).toMatchObject({ id, status: 'revoked', is_active: false });
    expect(refusal(await get('/v1/models', key))).toMatchObject({ status: 401, code: 'invalid_api_key' });
    const owned = (await get(`/api/v1/api-keys/${id}`)).json;
    expect(owned).toMatchObject({ is_active: false, expires_at: null, revoked_at: revoked.json.revoked_at });
    // To its owner a revoked key counts as expired; operators can tell the two apart.
    const found = async (path: string) =>
      (await get(`${path}&search=${encodeURIComponent('to be revoked')}`)).json.data;
    expect(await found('/api/v1/api-keys?status=expired')).toEqual([owned]);
    expect(await found('/api/v1/api-keys?status=active')).toEqual([]);
    expect(await found('/api/v1/admin/keys?status=revoked')).toEqual([revoked.json]);
    expect(await found('/api/v1/admin/keys?status=expired')).toEqual([]);
    expect(await found(`/api/v1/admin/keys?user_id=${revoked.json.user_id}`)).toEqual([revoked.json]);
    expect(await found(`/api/v1/admin/keys?user_id=${uuidv7()}`)).toEqual([]);
    expect((await patch(id, { name: 'alive again' })).status).toBe(409);
    expect((await gateway.call('POST', `/api/v1/api-keys/${id}/rotate`, session, {})).status).toBe(409);
    expect((await gateway.call('DELETE', `/api/v1/api-keys/${id}`, session)).status).toBe(204);
  });

  test('find the key that a secret opens, or opened, by it or its preview: a current one, one in its grace period, and one revoked', async () => {
    const { id, key } = await gateway.createKey(session);
    const rotated = await gateway.call('POST', `/api/v1/api-keys/${id}/rotate`, session, { grace_period_seconds: 60 });
    const found = async (search: string) =>
      (await get(`/api/v1/admin/keys?search=${search}`)).json.data.map((one: { id: string }) => one.id);
    expect(await found(key)).toEqual([id]);
    expect(await found(`${key.slice(0, 12)}...${key.slice(-4)}`)).toEqual([id]);
    expect(await found(rotated.json.key)).toEqual([id]);
    // It has the checksum of a secret, but nobody has it.
    expect(await found(makeKeySecret(randomBytes(32)))).toEqual([]);
    await gateway.call('POST', `/api/v1/admin/keys/${id}/revoke`, session, { reason: 'leaked' });
    expect(await found(rotated.json.key)).toEqual([id]);
    // An owner's list is searched by what it shows.
    expect((await get(`/api/v1/api-keys?search=${rotated.json.key}`)).json.data).toEqual([]);
  });

  test('limit one key', async () => {
    const { id } = await gateway.createKey(session);
    const limited = await put(`/api/v1/admin/keys/${id}/rate-limits`, { requests_per_minute: 5 });
    expect(limited.json.rate_limits).toEqual({
      requests_per_minute: 5,
      tokens_per_minute: null,
      concurrent_requests: null,
    });
    const change = { tokens_per_minute: 9, concurrent_requests: null };
    const changed = await gateway.call('PATCH', `/api/v1/admin/keys/${id}/rate-limits`, session, change);
    expect(changed.json.rate_limits).toEqual({ ...change, requests_per_minute: 5 });
  });

  test('cannot limit a management key: rate limits apply to model calls only', async () => {
    const { id } = await gateway.createKey(session, { key_type: 'management' });
    const path = `/api/v1/admin/keys/${id}/rate-limits`;
    for (const name of ['requests_per_minute', 'tokens_per_minute', 'concurrent_requests']) {
      expect(refusal(await put(path, { [name]: 5 }))).toMatchObject({
        status: 400,
        param: name,
        code: 'invalid_value',
      });
    }
    const none = { requests_per_minute: null, tokens_per_minute: null, concurrent_requests: null };
    expect((await put(path, none)).json.rate_limits).toEqual(none);
  });
});

describe('the session-only surface', () => {
  test('refuses API keys with authentication_error', async () => {
    const { key, id } = await gateway.createKey(session, { key_type: 'management' });
    for (const [method, path] of [
      ['GET', '/api/v1/api-keys'],
      ['POST', '/api/v1/api-keys'],
      ['GET', `/api/v1/api-keys/${id}`],
      ['PATCH', `/api/v1/api-keys/${id}`],
      ['DELETE', `/api/v1/api-keys/${id}`],
      ['POST', `/api/v1/api-keys/${id}/rotate`],
      ['GET', '/api/v1/admin/keys'],
      ['POST', `/api/v1/admin/keys/${id}/revoke`],
    ] as const) {
      expect(refusal(await gateway.call(method, path, key)), `${method} ${path}`).toMatchObject({
        status: 403,
        type: 'authentication_error',
      });
    }
  });

  test('answers 404 for an unknown key', async () => {
    const unknown = '01980000-0000-7000-8000-000000000000';
    expect((await get(`/api/v1/api-keys/${unknown}`)).status).toBe(404);
    expect((await patch(unknown, { name: 'ab' })).status).toBe(404);
    expect((await gateway.call('DELETE', `/api/v1/api-keys/${unknown}`, session)).status).toBe(404);
    expect((await gateway.call('POST', `/api/v1/api-keys/${unknown}/rotate`, session, {})).status).toBe(404);
  });
});
