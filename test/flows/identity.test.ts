import { afterAll, beforeAll, expect, test } from 'vitest';
import { Role } from '#shared/rpc/caller.ts';
import { ownerEmail, ownerPassword, startTestAuth, type TestAuth } from '../support/auth.ts';
import { checkDescribed } from '../support/described-answers.ts';
import { type IdentityEdge, startIdentityEdge } from '../support/identity-edge.ts';
import { join, strongPassword, tokenMailedTo } from '../support/people.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

let fixture: TestAuth;
let edge: IdentityEdge;
let checkAnswer: ReturnType<typeof checkDescribed>;
let owner: string;
let member: string;
beforeAll(async () => {
  fixture = await startTestAuth();
  edge = await startIdentityEdge(fixture);
  checkAnswer = checkDescribed(edge.app.swagger());
  owner = await tokenOf(ownerEmail, ownerPassword);
  await join(fixture, 'member@example.com', Role.MEMBER);
  member = await tokenOf('member@example.com', strongPassword);
});
afterAll(async () => {
  await edge[Symbol.asyncDispose]();
  await fixture.close();
});

async function call(method: Method, path: string, token?: string, payload?: unknown, headers: object = {}) {
  const answer = await edge.app.inject({
    method,
    url: `/api/v1${path}`,
    ...(payload !== undefined && { payload: payload as object }),
    headers: { ...(token !== undefined && { authorization: `Bearer ${token}` }), ...headers },
  });
  const { statusCode: status, headers: sent, body: text } = answer;
  checkAnswer(method, `/api/v1${path}`, { status, type: sent['content-type'], text });
  return { status, body: text === '' ? null : answer.json(), headers: sent };
}
async function tokenOf(email: string, password: string): Promise<string> {
  return (await call('POST', '/auth/login', undefined, { email, password })).body.access_token;
}

test('an invitation is created, listed and accepted, and then shows among the members', async () => {
  const made = await call('POST', '/invitations', owner, { email: 'Guest@Example.com', role: 'admin' });
  expect([made.status, made.body]).toMatchObject([
    201,
    { email: 'guest@example.com', role: 'admin', status: 'pending', accepted_at: null },
  ]);
  expect(JSON.stringify(made.body)).not.toContain('token');
  const listed = await call('GET', '/invitations?status=pending', owner);
  expect(listed.body.data.map(({ id }: { id: string }) => id)).toContain(made.body.id);

  const accepted = await call('POST', '/auth/accept-invite', undefined, {
    token: await tokenMailedTo(fixture, 'guest@example.com'),
    password: strongPassword,
    first_name: 'Guest',
    last_name: 'Person',
    // Accepted and ignored (service.md, Versioning), whoever's address it is.
    email: ownerEmail,
  });
  expect([accepted.status, accepted.body]).toMatchObject([
    201,
    {
      user: { email: 'guest@example.com', first_name: 'Guest', tenant_id: fixture.owner.tenantId },
      organization: { id: fixture.owner.tenantId, name: 'First', role: 'admin' },
    },
  ]);
  expect(Object.keys(accepted.body)).toEqual(['user', 'organization']);
  const members = await call('GET', '/members?search=guest', owner);
  expect(members.body.data).toMatchObject([{ email: 'guest@example.com', role: 'admin', is_active: true }]);
  expect(members.body.pagination).toMatchObject({ page: 1, total: 1 });

  const [{ id }] = members.body.data;
  const named = await call('GET', `/members?user_ids=${id},01890000-0000-7000-8000-000000000000`, owner);
  expect(named.body.data.map((member: { email: string }) => member.email)).toEqual(['guest@example.com']);

  const changed = await call('PATCH', `/members/${id}`, owner, { role: 'member' });
  expect(changed.body).toMatchObject({ role: 'member' });
});

test('an invitation is accepted with no more than its token and a password', async () => {
  expect((await call('POST', '/invitations', owner, { email: 'nameless@example.com' })).status).toBe(201);
  const accepted = await call('POST', '/auth/accept-invite', undefined, {
    token: await tokenMailedTo(fixture, 'nameless@example.com'),
    password: strongPassword,
    last_name: null,
  });
  expect([accepted.status, accepted.body]).toMatchObject([201, { user: { first_name: '', last_name: '' } }]);
});

test('inviting the same person again at once is refused, saying in how many seconds it can be done', async () => {
  const again: [path: string, body: object, param: string][] = [
    ['/invitations', { email: 'eager@example.com' }, 'email'],
    ['/admin/organizations', { owner_email: 'founder@example.com' }, 'owner_email'],
  ];
  for (const [path, body, param] of again) {
    expect((await call('POST', path, owner, body)).status).toBe(201);
    const refused = await call('POST', path, owner, body);
    expect([refused.status, refused.body.error]).toMatchObject([
      429,
      { type: 'requests', code: 'rate_limit_exceeded', param },
    ]);
    expect(refused.body.error.message).toContain('less than a minute ago');
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(30);
    expect(Number(refused.headers['retry-after'])).toBeLessThanOrEqual(60);
  }
});

test('a member is refused what admins may do, an owner what operators may do', async () => {
  const adminOnly: [Method, string, object?][] = [
    ['GET', '/members'],
    ['PATCH', `/members/${fixture.owner.userId}`, { is_active: false }],
    ['GET', '/invitations'],
    ['POST', '/invitations', { email: 'x@example.com' }],
    ['DELETE', '/invitations/01890000-0000-7000-8000-000000000000'],
    ['PATCH', '/organization', { name: 'Mine' }],
    ['GET', '/audit-events'],
  ];
  for (const [method, path, body] of adminOnly) {
    const refused = await call(method, path, member, body);
    expect([path, refused.status, refused.body?.error?.code]).toEqual([path, 403, 'insufficient_role']);
  }
  const operatorOnly: [Method, string, object?][] = [
    ['GET', '/admin/organizations'],
    ['POST', '/admin/organizations', { owner_email: 'x@example.com' }],
    ['GET', `/admin/organizations/${fixture.owner.tenantId}`],
    ['PATCH', `/admin/organizations/${fixture.owner.tenantId}`, { name: 'Mine' }],
    ['POST', `/admin/organizations/${fixture.owner.tenantId}/suspend`],
    ['POST', `/admin/organizations/${fixture.owner.tenantId}/restore`],
    ['GET', '/admin/invitations'],
    ['DELETE', '/admin/invitations/01890000-0000-7000-8000-000000000000'],
    ['GET', '/admin/users'],
    ['PATCH', `/admin/users/${fixture.owner.userId}`, { operator: true }],
    ['GET', '/admin/mail'],
    ['GET', '/admin/audit-events'],
    ['GET', '/admin/audit-events/verification'],
    ['GET', '/admin/signing-keys'],
    ['POST', '/admin/signing-keys/rotate'],
  ];
  for (const [method, path, body] of operatorOnly) {
    const refused = await call(method, path, member, body);
    expect([path, refused.status, refused.body?.error?.code]).toEqual([path, 403, 'insufficient_role']);
  }
});

test('every route except the public ones requires a session', async () => {
  const paths: [Method, string][] = [
    ['GET', '/profile'],
    ['GET', '/auth/profile'],
    ['PATCH', '/profile'],
    ['PUT', '/auth/password'],
    ['POST', '/auth/email/change'],
    ['POST', '/auth/email/confirm'],
    ['GET', '/organization'],
    ['GET', '/members'],
    ['GET', '/audit-events'],
    ['GET', '/admin/users'],
  ];
  for (const [method, path] of paths) {
    const refused = await call(method, path, undefined, method === 'GET' ? undefined : {});
    expect([path, refused.status]).toEqual([path, 401]);
    expect(refused.headers['www-authenticate']).toBe('Bearer');
  }
});

test('an operator creates, suspends and restores an organization, and sees who did what', async () => {
  const made = await call('POST', '/admin/organizations', owner, { name: 'Second', owner_email: 'second@example.com' });
  expect([made.status, made.body]).toMatchObject([
    201,
    { organization: { name: 'Second', status: 'active' }, invitation: { role: 'owner', status: 'pending' } },
  ]);
  const { id } = made.body.organization;
  const suspended = await call('POST', `/admin/organizations/${id}/suspend`, owner, { reason: 'unpaid' });
  expect(suspended.body).toMatchObject({ status: 'suspended', suspension_reason: 'unpaid' });
  const listed = await call('GET', '/admin/organizations?status=suspended', owner);
  expect(listed.body.data.map((organization: { id: string }) => organization.id)).toEqual([id]);
  expect((await call('POST', `/admin/organizations/${id}/restore`, owner)).body).toMatchObject({
    status: 'active',
    suspension_reason: null,
  });
  const events = await call('GET', `/admin/audit-events?tenant_id=${id}`, owner);
  expect(events.body.data.map(({ type }: { type: string }) => type)).toEqual([
    'organization_restored',
    'organization_suspended',
    'invitation_created',
    'organization_created',
  ]);
  expect(events.body.data[1]).toMatchObject({
    actor: { type: 'operator', id: fixture.owner.userId, ip: '127.0.0.1' },
    target: { type: 'organization', id },
    changes: { before: { status: 'active' }, after: { status: 'suspended', reason: 'unpaid' } },
  });
  expect(events.body.data.map(({ sequence }: { sequence: number }) => sequence)).toEqual([4, 3, 2, 1]);
  const verified = await call('GET', `/admin/audit-events/verification?tenant_id=${id}`, owner);
  const whole = { is_whole: true, first_broken_sequence: null, next_after_sequence: null };
  expect(verified.body).toEqual({ ...whole, events_checked: 4 });
  // A part says nothing about the whole until the last one.
  const verifyPart = (after: number) =>
    call('GET', `/admin/audit-events/verification?tenant_id=${id}&events_max=3&after_sequence=${after}`, owner);
  const begun = { is_whole: null, events_checked: 3, first_broken_sequence: null, next_after_sequence: 3 };
  expect((await verifyPart(0)).body).toEqual(begun);
  expect((await verifyPart(3)).body).toEqual({ ...whole, events_checked: 1 });
  expect((await verifyPart(5)).body.error.param).toBe('after_sequence');
});

test('the event named by the check of a chain can be found by its number', async () => {
  const { tenantId } = fixture.owner;
  const own = await call('GET', '/audit-events?sequence=2', owner);
  expect(own.body.data).toMatchObject([{ sequence: 2 }]);
  const found = await call('GET', `/admin/audit-events?tenant_id=${tenantId}&sequence=2`, owner);
  expect(found.body.data).toEqual([{ ...own.body.data[0], tenant_id: tenantId }]);
  const inAnyChain = await call('GET', '/admin/audit-events?sequence=1', owner);
  expect(inAnyChain.body.data.every(({ sequence }: { sequence: number }) => sequence === 1)).toBe(true);
  const platform = '00000000-0000-0000-0000-000000000000';
  await call('POST', '/admin/signing-keys/rotate', owner);
  const ofPlatform = await call('GET', `/admin/audit-events?tenant_id=${platform}&sequence=1`, owner);
  expect(ofPlatform.body.data).toMatchObject([{ sequence: 1, tenant_id: null }]);
  expect((await call('GET', '/audit-events?sequence=1000000', owner)).body.data).toEqual([]);
});

test('the signing keys and their periods are shown before and after one is replaced', async () => {
  type Keys = { data: { kid: string; status: string; activated_at: string; expires_at: string | null }[] };
  const before = (await call('GET', '/admin/signing-keys', owner)).body as Keys;
  const active = before.data.find(({ status }) => status === 'active')!;
  expect(active).toEqual({ kid: expect.any(String), status: 'active', activated_at: anIsoTime, expires_at: null });
  const replaced = await call('POST', '/admin/signing-keys/rotate', owner);
  const after = await call('GET', '/admin/signing-keys', owner);
  expect([after.status, after.body.data]).toEqual([200, replaced.body.data]);
  const former = (after.body as Keys).data.find(({ kid }) => kid === active.kid);
  expect(former).toEqual({ ...active, status: 'retiring', expires_at: anIsoTime });
});

const anIsoTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

test('registration is unavailable, whatever is sent', async () => {
  for (const payload of [undefined, {}, { email: 'me@example.com', password: strongPassword }]) {
    const refused = await call('POST', '/auth/register', undefined, payload);
    expect([refused.status, refused.body.error.code]).toEqual([503, 'registration_unavailable']);
  }
});

test('a password is as strong however its accents are typed', async () => {
  await join(fixture, 'accented@example.com');
  await call('POST', '/auth/password/forgot', undefined, { email: 'accented@example.com' });
  const token = await tokenMailedTo(fixture, 'accented@example.com');
  for (const weak of ['Mậtkhẩu1', 'Mật-hậ1']) {
    for (const form of ['NFC', 'NFD']) {
      const refused = await call('POST', '/auth/password/reset', undefined, { token, password: weak.normalize(form) });
      expect([refused.status, refused.body?.error.code], `${weak} ${form}`).toEqual([400, 'weak_password']);
    }
  }
});

test('a forgotten password is reset with the mailed token, and asking for it reveals nothing', async () => {
  await join(fixture, 'forgetful@example.com');
  const known = await call('POST', '/auth/password/forgot', undefined, { email: 'forgetful@example.com' });
  const unknown = await call('POST', '/auth/password/forgot', undefined, { email: 'nobody@example.com' });
  expect([known.status, known.body]).toEqual([unknown.status, unknown.body]);
  expect(known.status).toBe(202);
  const token = await tokenMailedTo(fixture, 'forgetful@example.com');
  const long = await call('POST', '/auth/password/reset', undefined, { token, password: 'é'.repeat(1_024) });
  const tooLong = 'Invalid value for `password`: it must have at most 1024 bytes.';
  expect([long.status, long.body.error]).toMatchObject([400, { param: 'password', message: tooLong }]);
  const weak = await call('POST', '/auth/password/reset', undefined, { token, password: 'weak' });
  expect([weak.status, weak.body.error.param, weak.body.error.code]).toEqual([400, 'password', 'weak_password']);
  const reset = { token, password: 'An0ther-password' };
  expect((await call('POST', '/auth/password/reset', undefined, reset)).status).toBe(204);
  const again = await call('POST', '/auth/password/reset', undefined, reset);
  expect([again.status, again.body.error.code]).toEqual([400, 'invalid_code']);
});

test('an address is changed with the token that was mailed to the new one, in a session of the user; asking reveals nothing', async () => {
  const user = await join(fixture, 'moving@example.com');
  const session = await tokenOf(user.email, strongPassword);
  const ask = (email: string, current_password = strongPassword) =>
    call('POST', '/auth/email/change', session, { email, current_password });
  for (const [email, password, param] of [
    ['nowhere', strongPassword, 'email'],
    ['MOVING@example.com', strongPassword, 'email'],
    ['moved@example.com', 'wrong', 'current_password'],
  ] as const) {
    const refused = await ask(email, password);
    expect([email, refused.status, refused.body.error.param]).toEqual([email, 400, param]);
  }
  const asked = await ask('moved@example.com');
  expect([asked.status, asked.body.message]).toEqual([
    202,
    'An email is on its way to the new address. Confirm it within an hour.',
  ]);
  const [early, wait] = [await ask('other@example.com'), 60];
  expect([early.status, Number(early.headers['retry-after']) <= wait]).toEqual([429, true]);
  const token = await tokenMailedTo(fixture, 'moved@example.com');
  const elsewhere = await call('POST', '/auth/email/confirm', member, { token });
  expect([elsewhere.status, elsewhere.body.error.code]).toEqual([400, 'invalid_code']);
  const confirmed = await call('POST', '/auth/email/confirm', session, { token });
  expect(confirmed.status).toBe(200);
  expect(confirmed.body).toEqual((await call('GET', '/profile', session)).body);
  expect(confirmed.body).toMatchObject({ id: user.id, email: 'moved@example.com', email_verified: true });
  const again = await call('POST', '/auth/email/confirm', session, { token });
  expect([again.status, again.body.error.code]).toEqual([400, 'invalid_code']);
  await join(fixture, 'curious@example.com');
  const curious = await tokenOf('curious@example.com', strongPassword);
  const taken = { email: ownerEmail, current_password: strongPassword };
  const unrevealing = await call('POST', '/auth/email/change', curious, taken);
  expect([unrevealing.status, unrevealing.body]).toEqual([202, asked.body]);
});

test('an operator changes the address of a user, unless another user has it', async () => {
  const user = await join(fixture, 'locked.out@example.com');
  const change = (email: string) => call('PATCH', `/admin/users/${user.id}`, owner, { email });
  const malformed = await change('nowhere');
  expect([malformed.status, malformed.body.error.param]).toEqual([400, 'email']);
  expect((await change('Member@example.com')).status).toBe(409);
  const changed = await change('let.in@example.com');
  expect([changed.status, changed.body.email, changed.body.email_verified]).toEqual([200, 'let.in@example.com', false]);
  expect(await tokenOf('let.in@example.com', strongPassword)).toBeDefined();
});

test.each([
  ['an unknown field', 'PATCH', '/profile', { role: 'owner' }, 'role'],
  ['a tenant of choice', 'PATCH', '/profile', { tenant_id: 'x' }, 'tenant_id'],
  ['the operator flag', 'PATCH', '/members/01890000-0000-7000-8000-000000000000', { operator: true }, 'operator'],
  ['a wrong type', 'PATCH', '/profile', { first_name: 5 }, 'first_name'],
  ['an object for a text', 'PATCH', '/organization', { name: { $ne: null } }, 'name'],
  ['a name of one character', 'PATCH', '/organization', { name: 'x' }, 'name'],
  ['a name of 256 characters', 'PATCH', '/organization', { name: 'x'.repeat(256) }, 'name'],
  ['an invented role', 'POST', '/invitations', { email: 'a@example.com', role: 'operator' }, 'role'],
  ['no address', 'POST', '/invitations', { email: 'nowhere' }, 'email'],
  ['a header in an address', 'POST', '/invitations', { email: 'a@example.com\r\nBcc: b@example.com' }, 'email'],
  ['a page below one', 'GET', '/members?page=0', undefined, 'page'],
  ['a time that is none', 'GET', '/audit-events?occurred_from=yesterday', undefined, 'occurred_from'],
  ['a number of an event below one', 'GET', '/audit-events?sequence=0', undefined, 'sequence'],
] as const)('%s is refused by name, and nothing is written', async (_name, method, path, body, param) => {
  const before = await call('GET', '/profile', owner);
  const refused = await call(method, encodeURI(path), owner, body);
  expect([refused.status, refused.body.error.param]).toEqual([400, param]);
  expect((await call('GET', '/profile', owner)).body).toEqual(before.body);
});

test('NUL in a text, prototypes and deep nesting are refused and change nothing', async () => {
  const json = { 'content-type': 'application/json' };
  const bodies = [
    '{"first_name":"a\\u0000b"}',
    '{"__proto__":{"operator":true}}',
    '{"constructor":{"prototype":{"operator":true}}}',
    `{"first_name":${'['.repeat(100_000)}"\\u0000"${']'.repeat(100_000)}}`,
  ];
  for (const payload of bodies) {
    const answer = await edge.app.inject({
      method: 'PATCH',
      url: '/api/v1/profile',
      payload,
      headers: { ...json, authorization: `Bearer ${owner}` },
    });
    expect([payload.slice(0, 40), answer.statusCode]).toEqual([payload.slice(0, 40), 400]);
  }
  expect((await call('GET', '/members?search=%00', owner)).status).toBe(400);
  expect(({} as { operator?: boolean }).operator).toBeUndefined();
});

test("another organization's ids are not found, and nothing of theirs changes", async () => {
  const made = await call('POST', '/admin/organizations', owner, { name: 'Other', owner_email: 'other@example.com' });
  const other = await call('POST', '/auth/accept-invite', undefined, {
    token: await tokenMailedTo(fixture, 'other@example.com'),
    password: strongPassword,
    first_name: 'O',
    last_name: 'T',
  });
  const stranger = await tokenOf('other@example.com', strongPassword);
  const mine = await call('POST', '/invitations', owner, { email: 'mine@example.com' });
  expect((await call('DELETE', `/invitations/${mine.body.id}`, stranger)).status).toBe(404);
  expect((await call('PATCH', `/members/${fixture.owner.userId}`, stranger, { is_active: false })).status).toBe(404);
  expect((await call('GET', '/organization', stranger)).body.id).toBe(made.body.organization.id);
  const members = await call('GET', '/members', stranger);
  expect(members.body.data.map(({ id }: { id: string }) => id)).toEqual([other.body.user.id]);
  expect((await call('GET', '/profile', owner)).status).toBe(200);
});
