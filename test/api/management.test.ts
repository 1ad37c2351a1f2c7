import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { uuidv7 } from '#shared/ids.ts';
import { type Answer, startTestGateway, type TestGateway } from '../support/gateway.ts';

/* What management endpoints accept, and how they word their refusals, whichever of them is called. */

let gateway: TestGateway;
let session: string;
let organization: string;

beforeAll(async () => {
  gateway = await startTestGateway();
  session = await gateway.login();
  organization = (await call('GET', '/organization')).json.id;
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const call = (method: string, path: string, body?: unknown): Promise<Answer> =>
  gateway.call(method, `/api/v1${path}`, session, body);

function expectRefused(answer: Answer, param: string | null, code: string | null = 'invalid_value'): void {
  expect(answer.status, answer.text).toBe(400);
  expect(answer.json.error, answer.text).toMatchObject({ type: 'invalid_request_error', param, code });
}

describe('a time', () => {
  const taking = (time: string): [method: string, path: string, body: object, param: string][] => [
    ['POST', '/api-keys', { name: 'a key', expires_at: time }, 'expires_at'],
    ['POST', '/admin/prices', { model: 'sandbox-chat', per_request_usd: 1, effective_from: time }, 'effective_from'],
    ['PATCH', '/admin/retirements/sandbox-chat', { sunset_at: time }, 'sunset_at'],
    ['POST', '/admin/coupons', { amount_usd: 1, redeem_until: time }, 'redeem_until'],
    ['POST', `/admin/organizations/${organization}/credits`, { amount_usd: 1, expires_at: time }, 'expires_at'],
    [
      'POST',
      `/admin/organizations/${organization}/commitments`,
      { amount_usd: 1, period_start: '2150-01-01', period_end: time },
      'period_end',
    ],
  ];

  test.each([
    ['beyond the year 9999', '9999-12-31T23:59:59-23:59'],
    ['before the year 1', '0001-01-01T00:00:00+14:00'],
    ['on a day that does not exist', '2151-02-31T00:00:00Z'],
  ])('%s is refused wherever a time is accepted, naming the field', async (_what, time) => {
    for (const [method, path, body, param] of taking(time)) expectRefused(await call(method, path, body), param);
  });
});

describe('text that is not well-formed Unicode', () => {
  const lone = '\\ud800';

  test.each([
    ['POST', '/admin/deployments', `{"model":"sandbox-chat","upstream_model":"${lone}"}`, 'upstream_model'],
    ['PATCH', '/profile', `{"first_name":"${lone}"}`, 'first_name'],
    ['PATCH', '/organization', `{"name":"Some ${lone} name"}`, 'name'],
    ['PATCH', '/organization', '{"name":"Some \\uDFFF name"}', 'name'],
    ['POST', '/admin/retirements', `{"model":"sandbox-chat","retirement_note":"${lone}"}`, 'retirement_note'],
    ['POST', '/jobs', `{"endpoint":"/v1/embeddings","body":{"metadata":{"a":"${lone}"}}}`, 'body'],
    ['POST', '/jobs', `{"endpoint":"/v1/embeddings","body":{"metadata":{"${lone}":"a"}}}`, 'body'],
    ['PATCH', '/profile', `{"${lone}":"a"}`, null],
    ['GET', '/members?page=1&search=a%00', undefined, 'search'],
    ['GET', '/models?operation=embeddings&operation=%00', undefined, 'operation'],
    ['GET', '/models/%00', undefined, null],
  ])('%s %s %s is refused, naming the field', async (method, path, body, param) => {
    expectRefused(await call(method, path, body), param);
  });

  test('does not include an emoji written as two escapes', async () => {
    expect((await call('PATCH', '/profile', '{"first_name":"\\ud83d\\ude00"}')).json.first_name).toBe('😀');
  });
});

test('a body that is not UTF-8 is refused, and nothing of it is stored', async () => {
  const before = (await call('GET', '/profile')).text;
  const latin1 = await call('PATCH', '/profile', Buffer.from('{"first_name":"Ren\xe9"}', 'latin1'));
  expectRefused(latin1, null, null);
  expect(latin1.json.error.message).toBe('The request body is not valid UTF-8.');
  expect((await call('GET', '/profile')).text).toBe(before);
});

test.each([
  ['/admin/coupons', '{"amount_usd":1,"amount_usd":0.5}', 'amount_usd'],
  ['/admin/coupons', '{"amount_usd":1,"amount\\u005fusd":0.5}', 'amount_usd'],
  ['/jobs', '{"endpoint":"/v1/embeddings","body":{"model":"a","input":"b","model":"c"}}', 'model'],
])('POST %s %s is refused for its duplicate member', async (path, body, param) => {
  expectRefused(await call('POST', path, body), param, 'duplicate_field');
});

test.each<[method: string, path: string, body: object | undefined, param: string, says: string]>([
  ['POST', '/admin/deployments', { model: 'sandbox-chat', base_url: 'not a url' }, 'base_url', 'must be a valid URI'],
  ['POST', '/admin/upstreams', { base_url: 'not a url' }, 'base_url', 'must be a valid URI'],
  ['POST', '/invitations', { email: 'nobody' }, 'email', 'must be a valid email address'],
  ['POST', '/admin/models', { name: 'a b', operations: ['embeddings'] }, 'name', 'does not match the pattern'],
  [
    'POST',
    '/admin/retirements',
    { model: 'sandbox-chat', retirement_note: '' },
    'retirement_note',
    'must have at least 1 character\\b',
  ],
  ['GET', '/admin/users?tenant_id=xx', undefined, 'tenant_id', 'must be a valid UUID'],
  ['POST', '/admin/grants', { model: 'sandbox-chat', tenant_id: 'xx' }, 'tenant_id', 'must be a valid UUID'],
  ['DELETE', '/admin/grants?model=sandbox-chat&tenant_id=xx', undefined, 'tenant_id', 'must be a valid UUID'],
  ['GET', '/usage/history?api_key_id=xx', undefined, 'api_key_id', 'must be a valid UUID'],
  ['GET', '/admin/users?user_ids=', undefined, 'user_ids', 'must have at least 1 character'],
  ['POST', '/api-keys', { name: 'x' }, 'name', 'must have at least 2 characters'],
])(
  '%s %s %j is refused for its field in the same words, whoever finds the fault',
  async (method, path, body, param, says) => {
    const answer = await call(method, path, body);
    expectRefused(answer, param);
    expect(answer.json.error.message).toMatch(new RegExp(`^Invalid value for \`${param}\`: it ${says}.*\\.$`));
  },
);

test.each([
  ['/members?user_ids=0198a000-0000-7000-8000-000000000001,xx', 'user_ids', 'expected UUIDs, separated by commas'],
  ['/admin/users?user_ids=xx', 'user_ids', 'expected UUIDs, separated by commas'],
  ['/models?operation=embeddings&operation=teleport', 'operation', 'expected one of chat_completions, '],
])(
  'GET %s is refused for a parameter with several values by the name that it has in the query',
  async (path, param, says) => {
    const answer = await call('GET', path);
    expectRefused(answer, param);
    expect(answer.json.error.message).toContain(`Invalid value for \`${param}\`: ${says}`);
  },
);

test.each(['mailto:x', 'ftp://host/v1', 'https://user:secret@host/v1'])(
  'an upstream at %s is refused: no server can be there',
  async (base_url) => {
    expectRefused(await call('POST', '/admin/upstreams', { base_url }), 'base_url');
  },
);

describe('an id in a path that is not a UUID', () => {
  const unknown = '0198a000-0000-7000-8000-000000000001';
  test.each<[method: string, path: string, body?: object]>([
    ['GET', '/api-keys/ID'],
    ['PATCH', '/api-keys/ID', { name: 'another' }],
    ['DELETE', '/api-keys/ID'],
    ['POST', '/api-keys/ID/rotate', {}],
    ['PATCH', '/members/ID', { role: 'admin' }],
    ['DELETE', '/invitations/ID'],
    ['GET', '/billing/documents/invoices/ID'],
    ['GET', '/billing/documents/invoices/ID?format=pdf'],
    ['GET', '/billing/documents/invoices/ID/transactions'],
    ['GET', '/jobs/ID'],
    ['POST', '/jobs/ID/cancel'],
    ['DELETE', '/jobs/ID'],
    ['GET', '/admin/organizations/ID'],
    ['PATCH', '/admin/organizations/ID', { name: 'Another' }],
    ['POST', '/admin/organizations/ID/suspend', {}],
    ['POST', '/admin/organizations/ID/restore'],
    ['GET', '/admin/organizations/ID/key-quota'],
    ['PUT', '/admin/organizations/ID/key-quota', { keys_per_user: 3 }],
    ['GET', '/admin/organizations/ID/account'],
    ['PUT', '/admin/organizations/ID/plan', { code: 'prepaid' }],
    ['POST', '/admin/organizations/ID/credits', { amount_usd: 1 }],
    ['POST', '/admin/organizations/ID/adjustments', { amount_usd: 1, description: 'x' }],
    ['POST', '/admin/organizations/ORGANIZATION/transactions/ID/refund', { description: 'x' }],
    ['POST', '/admin/organizations/ORGANIZATION/invoices/ID/void'],
    ['POST', '/admin/keys/ID/revoke', {}],
    ['PUT', '/admin/keys/ID/rate-limits', { requests_per_minute: 1 }],
    ['PATCH', '/admin/keys/ID/rate-limits', { requests_per_minute: 1 }],
    ['PATCH', '/admin/deployments/ID', { weight: 2 }],
    ['DELETE', '/admin/deployments/ID'],
    ['PATCH', '/admin/users/ID', { is_active: true }],
    ['POST', '/admin/coupons/ID/disable'],
    ['DELETE', '/admin/invitations/ID'],
  ])('is answered by %s %s as one that does not exist', async (method, path, body) => {
    const named = path.replace('ORGANIZATION', organization);
    const answer = await call(method, named.replace('ID', unknown), body);
    expect([answer.status, answer.json.error.code], answer.text).toEqual([404, 'not_found']);
    for (const id of ['xx', 'x'.repeat(256), `${unknown}0`, '%F0%9F%98%80']) {
      const { status, text } = await call(method, named.replace('ID', id), body);
      expect({ status, text }).toEqual({ status: 404, text: answer.text });
    }
  });
});

test.each<[method: string, path: string, body?: object]>([
  ['GET', '/admin/models/'],
  ['PATCH', '/admin/models/', { owned_by: 'Acme' }],
  ['DELETE', '/admin/models/'],
  ['PATCH', '/admin/retirements/', { sunset_at: '2150-01-01' }],
  ['DELETE', '/admin/retirements/'],
])(
  '%s %s says of no model, and of a name that none can have, that there is no such model',
  async (method, path, body) => {
    for (const name of ['nobody', 'x'.repeat(256)]) {
      const { status, json } = await call(method, `${path}${name}`, body);
      expect([status, json.error.code, json.error.param], name).toEqual([404, 'model_not_found', 'model']);
    }
  },
);

test.each<[method: string, path: string, body: object | undefined, param: string, expected: string]>([
  ['PATCH', '/members/0198a000-0000-7000-8000-000000000001', { role: 'boss' }, 'role', 'member, admin, owner'],
  ['POST', '/api-keys', { name: 'a key', key_type: 'master' }, 'key_type', 'inference, management'],
  ['GET', '/api-keys?status=gone', undefined, 'status', 'active, expired'],
  ['GET', '/invitations?status=gone', undefined, 'status', 'pending, accepted, expired, withdrawn'],
  ['GET', '/admin/mail?status=gone', undefined, 'status', 'queued, sent, failed, dropped'],
  ['GET', '/admin/jobs?status=gone', undefined, 'status', 'queued, in_progress, completed, failed, cancelled'],
  [
    'GET',
    '/billing/documents/transactions?type=x',
    undefined,
    'type',
    'usage, grant, purchase, expiry, refund, adjustment',
  ],
  [
    'GET',
    '/billing/documents/invoices/0198a000-0000-7000-8000-000000000001?format=x',
    undefined,
    'format',
    'json, pdf',
  ],
  [
    'POST',
    '/admin/models',
    { name: 'x', operations: ['embeddings'], visibility: 'secret' },
    'visibility',
    'public, private',
  ],
  [
    'PATCH',
    '/admin/organizations/0198a000-0000-7000-8000-000000000001',
    { key_quota: 'lots' },
    'key_quota',
    'integer, default, null',
  ],
  [
    'PUT',
    '/admin/organizations/0198a000-0000-7000-8000-000000000001/key-quota',
    { keys_per_user: true },
    'keys_per_user',
    'integer, default, unlimited',
  ],
  ['POST', '/admin/models', { name: 'x', operations: ['embeddings'], visibility: 3 }, 'visibility', 'public, private'],
])('%s %s %j is refused with the allowed values', async (method, path, body, param, expected) => {
  const answer = await call(method, path, body);
  expectRefused(answer, param);
  expect(answer.json.error.message).toBe(`Invalid value for \`${param}\`: expected one of ${expected}.`);
});

test('a number out of range is refused with the range, even where a word would also be accepted', async () => {
  const path = '/admin/organizations/0198a000-0000-7000-8000-000000000001';
  expect((await call('PATCH', path, { key_quota: -1 })).json.error.message).toContain('at least 0');
});

test.each([
  ['GET', '/jobs?stauts=queued', 'stauts'],
  ['GET', '/usage/summary?start_date=2030-01-01&end_date=2030-01-31&api_key=x', 'api_key'],
  ['GET', '/usage?start_date=2030-01-01', 'start_date'],
  ['GET', '/profile?__proto__=1', '__proto__'],
  ['DELETE', `/api-keys/${uuidv7()}?force=true`, 'force'],
  ['POST', '/api-keys?name=in-the-query', 'name'],
])(
  '%s %s is refused, naming the parameter, since a misspelt filter would find everything',
  async (method, path, param) => {
    const { status, json } = await call(method, path, method === 'POST' ? '{"name":"A key"}' : undefined);
    expect([status, json.error.param, json.error.code]).toEqual([400, param, 'unknown_parameter']);
    expect(json.error.message).toBe(`Unknown query parameter: \`${param}\`.`);
  },
);

test('what a client adds to all its queries is ignored where OpenAI has the same endpoint, and where anybody may call', async () => {
  for (const path of [
    '/api/v1/models?api-version=1',
    '/v1/models?api-version=1',
    '/.well-known/jwks.json?api-version=1',
  ]) {
    expect((await gateway.call('GET', path, session)).status, path).toBe(200);
  }
});

test('an Idempotency-Key already used for something else is named', async () => {
  const post = (path: string, body: object) =>
    gateway.call('POST', `/api/v1${path}`, session, body, { 'idempotency-key': 'mine' });
  const pairs: [path: string, body: object, other: object][] = [
    ['/api-keys', { name: 'once' }, { name: 'twice' }],
    [`/admin/organizations/${organization}/credits`, { amount_usd: 1 }, { amount_usd: 2 }],
    ['/admin/coupons', { amount_usd: 1 }, { amount_usd: 2 }],
  ];
  for (const [path, body, other] of pairs) {
    expect((await post(path, body)).status, path).toBe(201);
    expectRefused(await post(path, other), 'Idempotency-Key', 'idempotency_key_reused');
  }
});

test.each(['1e1', '0x10', '%2B5', '10.0', '%2010', '0b1', '1_0', '١'])(
  'a page or a limit of %s is refused: numbers in queries are decimal digits alone',
  async (text) => {
    for (const param of ['page', 'limit']) expectRefused(await call('GET', `/api-keys?${param}=${text}`), param);
  },
);

test('an Idempotency-Key stands for one movement of money, however the URL is written, and for no other', async () => {
  const post = (path: string, body: object, tenantId = organization) =>
    gateway.call('POST', `/api/v1/admin/organizations/${tenantId}${path}`, session, body, {
      'idempotency-key': 'one-gift',
    });
  const gift = { amount_usd: 7, source: 'promotion', description: 'A gift' };
  const lot = (await post('/credits', gift)).json;
  for (const path of ['/credits', '/credits?', '/%63redits']) {
    expect((await post(path, gift)).json.id, path).toBe(lot.id);
  }
  expect((await post('/credits', gift, organization.toUpperCase())).json.id).toBe(lot.id);
  const others: [string, object][] = [
    ['/adjustments', { amount_usd: 7, description: 'A gift' }],
    ['/commitments', { amount_usd: 7, period_start: '2150-01-01', period_end: '2150-02-01' }],
  ];
  for (const [path, body] of others) expectRefused(await post(path, body), 'Idempotency-Key', 'idempotency_key_reused');
  const { lots } = (await call('GET', '/billing/wallet')).json;
  expect(lots.filter((one: { granted_usd: number }) => one.granted_usd === 7)).toHaveLength(1);
});
