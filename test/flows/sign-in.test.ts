import { afterAll, beforeAll, expect, test } from 'vitest';
import { ownerEmail, ownerPassword, startTestAuth, type TestAuth } from '../support/auth.ts';
import { type IdentityEdge, startIdentityEdge } from '../support/identity-edge.ts';

let fixture: TestAuth;
let edge: IdentityEdge;
beforeAll(async () => {
  fixture = await startTestAuth();
  edge = await startIdentityEdge(fixture);
});
afterAll(async () => {
  await edge[Symbol.asyncDispose]();
  await fixture.close();
});

const post = (url: string, payload?: object, headers: Record<string, string> = {}) =>
  edge.app.inject({ method: 'POST', url, payload, headers });
const login = async () => (await post('/api/v1/auth/login', { email: ownerEmail, password: ownerPassword })).json();
const profile = (token: string) =>
  edge.app.inject({ url: '/api/v1/profile', headers: { authorization: `Bearer ${token}` } });

test('a login returns the login result, and its token opens the profile', async () => {
  const answer = await post('/api/v1/auth/login', { email: ownerEmail, password: ownerPassword });
  expect(answer.statusCode).toBe(200);
  expect(answer.headers['cache-control']).toBe('no-store');
  expect(answer.headers['set-cookie']).toBeUndefined();
  const result = answer.json();
  expect(result).toEqual({
    access_token: expect.any(String),
    refresh_token: expect.any(String),
    token_type: 'bearer',
    expires_in: 1800,
    user: {
      id: fixture.owner.userId,
      email: ownerEmail,
      first_name: '',
      last_name: '',
      tenant_id: fixture.owner.tenantId,
      is_active: true,
      created_at: expect.stringMatching(/Z$/),
      email_verified: true,
      onboarding_completed: false,
    },
  });
  for (const url of ['/api/v1/profile', '/api/v1/auth/profile']) {
    const answered = await edge.app.inject({ url, headers: { authorization: `Bearer ${result.access_token}` } });
    expect(answered.statusCode).toBe(200);
    expect(answered.json()).toMatchObject({
      ...result.user,
      role: 'owner',
      organization: { id: fixture.owner.tenantId, name: 'First', status: 'active' },
    });
  }
});

test('after a logout the access token is refused at once', async () => {
  const { access_token: token, refresh_token: refreshToken } = await login();
  expect((await profile(token)).statusCode).toBe(200);
  expect((await post('/api/v1/auth/logout', undefined, { authorization: `Bearer ${token}` })).statusCode).toBe(204);
  const refused = await profile(token);
  expect(refused.statusCode).toBe(401);
  expect(refused.json().error.code).toBe('invalid_token');
  expect((await post('/api/v1/auth/refresh', { refresh_token: refreshToken })).statusCode).toBe(401);
});

test('a page of the gateway gets its refresh token as a cookie that scripts cannot read', async () => {
  const own = { 'sec-fetch-site': 'same-origin' };
  const answer = await post('/api/v1/auth/login', { email: ownerEmail, password: ownerPassword }, own);
  expect(answer.json().refresh_token).toBeUndefined();
  const cookie = answer.headers['set-cookie'] as string;
  for (const attribute of ['HttpOnly', 'Secure', 'SameSite=Strict', 'Path=/api/v1/auth']) {
    expect(cookie).toContain(attribute);
  }
  const sent = { cookie: cookie.split(';')[0]! };
  const refreshed = await post('/api/v1/auth/refresh', undefined, { ...sent, ...own });
  expect(refreshed.statusCode).toBe(200);
  expect(refreshed.json().refresh_token).toBeUndefined();
  expect(refreshed.headers['set-cookie']).toContain('mg_refresh_token=');
  const next = { cookie: (refreshed.headers['set-cookie'] as string).split(';')[0]! };
  const left = await post('/api/v1/auth/logout', undefined, { ...next, ...own });
  expect([left.statusCode, left.headers['set-cookie']]).toEqual([204, expect.stringContaining('mg_refresh_token=;')]);
  const dead = await post('/api/v1/auth/refresh', undefined, { ...next, ...own });
  // Another tab may have signed in while this was asked.
  expect([dead.statusCode, dead.headers['set-cookie']]).toEqual([401, undefined]);
});

test.each<Record<string, string>>([
  { 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'same-site' },
  { origin: 'https://elsewhere.example' },
  { origin: 'null' },
  { 'sec-fetch-site': 'none', origin: 'https://elsewhere.example' },
])('a page with %o can neither refresh nor end a session with the portal’s cookie', async (foreign) => {
  const own = { 'sec-fetch-site': 'same-origin' };
  const answer = await post('/api/v1/auth/login', { email: ownerEmail, password: ownerPassword }, own);
  const cookie = (answer.headers['set-cookie'] as string).split(';')[0]!;
  for (const path of ['/api/v1/auth/refresh', '/api/v1/auth/logout']) {
    const refused = await post(path, undefined, { cookie, ...foreign });
    expect([path, refused.statusCode]).toEqual([path, 403]);
    expect(refused.json().error.code).toBe('endpoint_not_allowed');
    expect(refused.headers['set-cookie']).toBeUndefined();
  }
  expect((await profile(answer.json().access_token)).statusCode).toBe(200);
  expect((await post('/api/v1/auth/refresh', undefined, { cookie, ...own })).statusCode).toBe(200);
});

test('what no page has asked for, as a browser says, may come with the portal’s cookie', async () => {
  const own = { 'sec-fetch-site': 'same-origin' };
  const answer = await post('/api/v1/auth/login', { email: ownerEmail, password: ownerPassword }, own);
  const cookie = (answer.headers['set-cookie'] as string).split(';')[0]!;
  const refreshed = await post('/api/v1/auth/refresh', undefined, { cookie, 'sec-fetch-site': 'none' });
  expect(refreshed.statusCode).toBe(200);
});

test('a wrong password is 401 invalid_credentials; a megabyte of it is refused unread', async () => {
  const wrong = await post('/api/v1/auth/login', { email: ownerEmail, password: 'wrong' });
  expect([wrong.statusCode, wrong.json().error.code]).toEqual([401, 'invalid_credentials']);
  const long = await post('/api/v1/auth/login', { email: ownerEmail, password: 'x'.repeat(1_000_000) });
  expect([long.statusCode, long.json().error.code]).toEqual([413, 'request_too_large']);
});

test('the published keys verify the tokens', async () => {
  const { access_token: token } = await login();
  const answer = await edge.app.inject({ url: '/.well-known/jwks.json' });
  expect(answer.headers['cache-control']).toBe('public, max-age=60');
  const { createLocalJWKSet, jwtVerify } = await import('jose');
  const { payload } = await jwtVerify(token, createLocalJWKSet(answer.json()), { algorithms: ['EdDSA'] });
  expect(payload.sub).toBe(fixture.owner.userId);
});
