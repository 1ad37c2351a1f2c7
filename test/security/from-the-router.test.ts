import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { keyTypeOfScope } from '#shared/scopes.ts';
import type { DeclaredRoute } from '../../edge/guards/access.ts';
import { owner, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { heldRequest } from '../support/held-request.ts';
import { createTestDatabase, rowsOf, type TestDatabase } from '../support/postgres.ts';
import { declaredRoutes } from '../support/routes.ts';
import { waitFor } from '../support/wait-for.ts';

/* Generated from the router, so that routes added later are tried as well. Two organizations: the operator's, and a stranger's. */

let database: TestDatabase;
let gateway: TestGateway;
let routes: readonly DeclaredRoute[];
/** The first owner, who is also an operator. */
let session: string;
/** The owner of another organization, who is not an operator. */
let stranger: string;
const strangerLogin = { email: 'stranger@example.com', password: 'Str4nger-password' };
const keys = { inference: '', management: '' };
/** Ids of what the first organization has, by the parameter that names them. */
const foreign: Record<string, string> = {};
const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
const logLines: string[] = [];
const issued = new Set<string>();

beforeAll(async () => {
  routes = await declaredRoutes();
  database = await createTestDatabase();
  gateway = await startTestGateway({ databaseUrl: database.url, logLines });
  session = await gateway.login();
  const call = (method: string, path: string, body?: unknown) => gateway.call(method, path, session, body);
  const key = await gateway.createKey(session, { name: 'inference' });
  keys.inference = key.key;
  // A job and what it is charged for.
  await call('POST', '/api/v1/admin/prices', { model: 'sandbox-chat', per_request_usd: 1 });
  const job = await gateway.call('POST', '/v1/chat/completions', key.key, { ...chat, background: true });
  expect(job.status, job.text).toBe(202);
  const invoice = await waitFor(
    async () => (await call('GET', '/api/v1/billing/documents/invoices?status=draft')).json.data[0],
    { description: 'the draft of an invoice' },
  );
  keys.management = (await gateway.createKey(session, { name: 'management', key_type: 'management' })).key;
  const invited = await call('POST', '/api/v1/invitations', { email: 'colleague@example.com', role: 'member' });
  const made = await call('POST', '/api/v1/admin/organizations', {
    name: 'Strangers',
    owner_email: strangerLogin.email,
  });
  expect([invited.status, made.status], invited.text + made.text).toEqual([201, 201]);
  const { json: mails } = await call('GET', `/api/v1/admin/mail?search=${strangerLogin.email}`);
  const token = /\?token=([\w-]+)/.exec(mails.data[0].text)![1]!;
  const names = { first_name: 'Some', last_name: 'Stranger' };
  const accepted = await gateway.call('POST', '/api/v1/auth/accept-invite', '', {
    token,
    password: strangerLogin.password,
    ...names,
  });
  expect(accepted.status, accepted.text).toBe(201);
  stranger = await gateway.login(strangerLogin);
  const profile = (await call('GET', '/api/v1/profile')).json;
  Object.assign(foreign, {
    key_id: key.id,
    job_id: job.json.id,
    invoice_id: invoice.id,
    user_id: profile.id,
    invitation_id: invited.json.id,
    tenant_id: profile.organization.id,
  });
  for (const secret of [session, stranger, token, owner.password, strangerLogin.password, ...Object.values(keys)]) {
    issued.add(secret);
  }
});
afterAll(async () => {
  await gateway?.[Symbol.asyncDispose]();
  await database?.drop();
});

/** A path with its parameters filled in. */
const addressOf = ({ url }: DeclaredRoute, ids: Readonly<Record<string, string>> = {}): string =>
  url.replace(/:(\w+)/g, (_match, name) => ids[name] ?? randomUUID()).replace('*', 'no/such');

/** The number of rows in the tables that people can change. */
async function rowCounts(): Promise<object> {
  const tables = ['keys.keys', 'keys.digests', 'keys.quotas', 'auth.users', 'auth.organizations', 'auth.invitations'];
  const all = [...tables, 'auth.password_resets', 'auth.email_changes', 'auth.mails'];
  const counts = all.map((table) => `(select count(*)::int from ${table}) as "${table}"`);
  return (await rowsOf(database.url, `select ${counts.join(', ')}`))[0];
}

type Schema = { type?: string; anyOf?: Schema[]; enum?: unknown[]; items?: Schema };
type Fields = Record<string, Schema>;

/** A value of the type that a field takes, so that a body is refused for nothing else in it. */
function someValue({ type, anyOf, enum: values, items }: Schema): unknown {
  if (anyOf !== undefined) return someValue(anyOf[0]!);
  if (values !== undefined) return values[0];
  switch (type) {
    case 'string':
      return 'long enough';
    case 'integer':
    case 'number':
      return 1;
    case 'array':
      return [someValue(items!)];
    case 'object':
      return {};
    default:
      return true;
  }
}

/**
 * Management routes that take a JSON object, with its fields and one that has those it must have; inference passes on unknown fields
 * (decisions.md, Common).
 */
const bodies = () =>
  routes.flatMap((route) => {
    const { access } = route;
    const { properties, required = [] } = (route.schema.body ?? {}) as { properties?: Fields; required?: string[] };
    const isInference = access.surface === 'api' && keyTypeOfScope(access.scope) === 'inference';
    if (properties === undefined || isInference) return [];
    const complete = Object.fromEntries(required.map((name) => [name, someValue(properties[name]!)]));
    return [{ route, properties, complete }];
  });

/** Sends a body to a route as someone who may call it. */
const send = (route: DeclaredRoute, body: unknown) =>
  gateway.call(route.method, addressOf(route), route.access.surface === 'public' ? '' : session, body);

describe('bodies', () => {
  test('with an unknown field are refused, naming the field', async () => {
    const before = await rowCounts();
    expect(bodies().length).toBeGreaterThan(20);
    for (const { route, properties, complete } of bodies()) {
      for (const name of ['role', 'tenant_id', 'user_id', 'usage_count', 'is_active', 'surprise']) {
        if (name in properties) continue;
        const answer = await send(route, { ...complete, [name]: 'owner' });
        const what = `${route.method} ${route.url} ${name}: ${answer.text}`;
        expect([answer.status, answer.json.error?.param], what).toEqual([400, name]);
      }
    }
    expect(await rowCounts()).toEqual(before);
  });

  test('with a field are refused where none is declared or the whole body may be left out, naming the field', async () => {
    const before = await rowCounts();
    const methods = ['POST', 'PUT', 'PATCH', 'DELETE'];
    const others = routes.filter(({ method, url, access, schema: { body, uncheckedBody } }) => {
      const isInference = access.surface === 'api' && access.scope.startsWith('inference:');
      const hasFields = (body as { properties?: Fields } | undefined)?.properties !== undefined;
      const isUnavailable = url === '/api/v1/auth/register';
      return methods.includes(method) && uncheckedBody === undefined && !isInference && !hasFields && !isUnavailable;
    });
    expect(others.length).toBeGreaterThan(20);
    for (const route of others) {
      const answer = await send(route, { surprise: 'owner' });
      expect([answer.status, answer.json?.error.param], `${route.method} ${route.url}: ${answer.text}`).toEqual([
        400,
        'surprise',
      ]);
    }
    expect(await rowCounts()).toEqual(before);
  });

  test('with __proto__, of the wrong type, or with an object instead of a scalar are refused', async () => {
    const before = await rowCounts();
    for (const { route, properties, complete } of bodies()) {
      const refuses = async (body: string) => {
        const { status, text, json } = await send(route, body);
        expect(status, `${route.method} ${route.url} ${body}: ${text}`).toBe(400);
        return json.error;
      };
      for (const body of ['[]', '"text"', '17']) await refuses(body);
      const rest = JSON.stringify(complete).slice(1);
      for (const member of ['"__proto__":{"isAdmin":true}', '"constructor":{"prototype":{}}']) {
        expect((await refuses(`{${member}${rest === '}' ? '' : ','}${rest}`)).message).toMatch(/not valid JSON/);
      }
      for (const [name, { type, anyOf, enum: values }] of Object.entries(properties)) {
        // One that takes an object, or anything since it is ignored.
        if (type === 'object' || (type ?? anyOf ?? values) === undefined) continue;
        for (const wrong of [{ $ne: null }, [[]]]) {
          const { param } = await refuses(JSON.stringify({ ...complete, [name]: wrong }));
          expect(param.split('.')[0], `${route.method} ${route.url} ${name}`).toBe(name);
        }
      }
    }
    expect(({} as Record<string, unknown>).isAdmin).toBeUndefined();
    expect(await rowCounts()).toEqual(before);
  });

  test('with a megabyte of text are refused', async () => {
    const before = await rowCounts();
    for (const { route, properties } of bodies()) {
      const name = Object.keys(properties)[0]!;
      const answer = await send(route, { [name]: 'x'.repeat(1_000_000) });
      expect([400, 413], `${route.method} ${route.url}: ${answer.text.slice(0, 200)}`).toContain(answer.status);
    }
    expect(await rowCounts()).toEqual(before);
  });
});

describe('surfaces', () => {
  test('no key reaches what is for sessions, for operators, or for keys of the other type', async () => {
    for (const route of routes) {
      const { access } = route;
      if (access.surface === 'public') continue;
      for (const type of ['inference', 'management'] as const) {
        if (access.surface === 'api' && keyTypeOfScope(access.scope) === type) continue;
        // Inference routes answer only after their bodies; every-route.test.ts sends them valid ones.
        if (access.surface === 'api' && route.method === 'POST') continue;
        const answer = await gateway.call(route.method, addressOf(route), keys[type]);
        expect(
          [answer.status, answer.json?.error.type, answer.json?.error.code],
          `${type} key: ${route.method} ${route.url}`,
        ).toEqual([403, 'authentication_error', 'endpoint_not_allowed']);
      }
    }
  });

  test('nothing but what is public is answered without a credential', async () => {
    for (const route of routes) {
      if (route.access.surface === 'public') continue;
      const answer = await gateway.call(route.method, addressOf(route));
      expect([answer.status, answer.json?.error.code], `${route.method} ${route.url}`).toEqual([
        401,
        'missing_api_key',
      ]);
    }
  });

  test('operators’ routes refuse an owner who is not an operator', async () => {
    for (const route of routes) {
      if (route.access.surface !== 'operator') continue;
      const answer = await gateway.call(route.method, addressOf(route, foreign), stranger);
      expect([answer.status, answer.json.error.code], `${route.method} ${route.url}`).toEqual([
        403,
        'insufficient_role',
      ]);
    }
  });
});

test('a page of another origin may send every route what it takes, but only with a credential of its own', async () => {
  for (const { method, url } of routes) {
    const preflight = await fetch(gateway.url + url.replace('*', 'page'), {
      method: 'OPTIONS',
      headers: { origin: 'https://app.example', 'access-control-request-method': method },
    });
    const allowed = preflight.headers.get('access-control-allow-methods')!.split(/, */);
    expect(allowed, `${method} ${url}`).toContain(method);
    expect(preflight.headers.has('access-control-allow-credentials')).toBe(false);
  }
});

describe('a right that ends while a body is on its way', () => {
  /** A credential that the edge knows, so that it decides at once. */
  const known = async (token: string, path = '/api/v1/profile') => {
    expect((await gateway.call('GET', path, token)).status).toBe(200);
    return token;
  };
  const hold = (token: string, method: string, path: string, body: object) =>
    heldRequest(gateway.url, { method, path, token, body: JSON.stringify(body) });
  const isUpload = ({ url }: DeclaredRoute) => /\/audio\/trans/.test(url);
  const form = '--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nsandbox-transcribe\r\n--x--\r\n';

  test('has no effect any more on any route that takes a body', async () => {
    const doomed = await known(await gateway.login());
    const inference = await gateway.createKey(session, { name: 'doomed' });
    const management = await gateway.createKey(session, { name: 'doomed', key_type: 'management' });
    await known(inference.key, '/v1/models');
    await known(management.key, '/api/v1/profile');
    const held: [what: string, send: Awaited<ReturnType<typeof heldRequest>>, code: string][] = [];
    for (const route of routes) {
      const { access, method } = route;
      if (access.surface === 'public' || method === 'GET') continue;
      const what = `${method} ${route.url}`;
      const request = {
        method,
        path: addressOf(route),
        ...(isUpload(route) ? { body: form, contentType: 'multipart/form-data; boundary=x' } : { body: '{}' }),
      };
      held.push([`session: ${what}`, await heldRequest(gateway.url, { ...request, token: doomed }), 'invalid_token']);
      if (access.surface !== 'api') continue;
      const { key } = keyTypeOfScope(access.scope) === 'inference' ? inference : management;
      held.push([`key: ${what}`, await heldRequest(gateway.url, { ...request, token: key }), 'invalid_api_key']);
    }
    expect(held.length).toBeGreaterThan(70);
    expect((await gateway.call('POST', '/api/v1/auth/logout', doomed)).status).toBe(204);
    for (const { id } of [inference, management]) {
      expect((await gateway.call('DELETE', `/api/v1/api-keys/${id}`, session)).status).toBe(204);
    }
    const answers = await Promise.all(held.map(async ([what, send]) => [what, await send()]));
    expect(answers).toEqual(held.map(([what, , code]) => [what, { status: 401, code }]));
  });

  test('whether it was the scope of a key or its address', async () => {
    const narrowed: [change: object, code: string][] = [
      [{ scopes: ['models:list'] }, 'missing_scope'],
      [{ ip_allowlist: ['203.0.113.7'] }, 'ip_not_allowed'],
    ];
    for (const [change, code] of narrowed) {
      const { id, key } = await gateway.createKey(session, { name: 'narrowed' });
      const send = await hold(await known(key, '/v1/models'), 'POST', '/v1/chat/completions', chat);
      expect((await gateway.call('PATCH', `/api/v1/api-keys/${id}`, session, change)).status).toBe(200);
      expect(await send()).toEqual({ status: 403, code });
    }
  });

  test('whether it was an operator’s right, a key’s organization, or an admin’s account', async () => {
    const { id, organization } = (await gateway.call('GET', '/api/v1/profile', stranger)).json;
    const admin = async (method: string, path: string, body?: object) => {
      const answer = await gateway.call(method, `/api/v1/admin${path}`, session, body);
      expect(answer.status, answer.text).toBeLessThan(300);
      return answer.json;
    };
    await admin('PATCH', `/users/${id}`, { operator: true });
    const operator = await known(await gateway.login(strangerLogin));
    const credits = `/api/v1/admin/organizations/${organization.id}/credits`;
    const grant = await hold(operator, 'POST', credits, { amount_usd: 1_000 });
    await admin('PATCH', `/users/${id}`, { operator: false });
    expect(await grant()).toEqual({ status: 401, code: 'invalid_token' });

    stranger = await known(await gateway.login(strangerLogin));
    issued.add(operator).add(stranger);
    const { key } = await gateway.createKey(stranger, { name: 'suspended' });
    const call = await hold(await known(key, '/v1/models'), 'POST', '/v1/chat/completions', chat);
    const change = await hold(stranger, 'PATCH', `/api/v1/members/${id}`, { is_active: true });
    await admin('POST', `/organizations/${organization.id}/suspend`, { reason: 'unpaid' });
    expect(await call()).toEqual({ status: 403, code: 'tenant_suspended' });
    await admin('POST', `/organizations/${organization.id}/restore`);
    await admin('PATCH', `/users/${id}`, { is_active: false });
    expect(await change()).toEqual({ status: 401, code: 'invalid_token' });
    const people = await admin('GET', `/users?search=${strangerLogin.email}`);
    expect(people.data[0].is_active).toBe(false);
    await admin('PATCH', `/users/${id}`, { is_active: true });
    stranger = await gateway.login(strangerLogin);
    issued.add(stranger);
  });

  test('but if it does not end, the request counts as one use of a key', async () => {
    const { id, key } = await gateway.createKey(session, { name: 'used' });
    const calls = [chat, { ...chat, stream: true }, { ...chat, background: true }];
    for (const body of calls)
      expect((await gateway.call('POST', '/v1/chat/completions', key, body)).status).toBeLessThan(300);
    await gateway.call('GET', '/v1/models', key);
    // Reported together, so that a use too many would come with them.
    const read = async () => (await gateway.call('GET', `/api/v1/api-keys/${id}`, session)).json.usage_count;
    await waitFor(async () => (await read()) >= calls.length + 1, { description: 'the uses to be reported' });
    expect(await read()).toBe(calls.length + 1);
  });
});

test('someone who knows an id of another organization gets 404 or zeros, and changes nothing', async () => {
  const rightBodies: Readonly<Record<string, unknown>> = {
    'PATCH /api/v1/api-keys/:key_id': { name: 'stolen' },
    'POST /api/v1/api-keys/:key_id/rotate': { grace_period_seconds: 0 },
    'PATCH /api/v1/members/:user_id': { is_active: false },
  };
  const list = async (name: string) => (await gateway.call('GET', `/api/v1/${name}`, session)).json.data;
  const areOver = async () =>
    (await list('jobs')).every(({ status }: { status: string }) => !['queued', 'in_progress'].includes(status));
  await waitFor(areOver, { description: 'the jobs of other tests to end' });
  /** Without what the calls of other tests may still change: uses, and the sums of a draft. */
  const lasting = ({ last_used_at, usage_count, last_login_at, ...rest }: Record<string, unknown>) => {
    const { id, status, payment_status } = rest;
    return payment_status === undefined ? rest : { id, status, payment_status };
  };
  const seen = async () => {
    const names = ['api-keys', 'members', 'invitations', 'jobs', 'billing/documents/invoices'];
    return Promise.all(names.map(async (name) => (await list(name)).map(lasting)));
  };
  const before = await seen();
  const tried: string[] = [];
  for (const route of routes) {
    if (!/:\w*id\b/.test(route.url) || route.access.surface === 'operator' || route.access.surface === 'public')
      continue;
    const name = `${route.method} ${route.url}`;
    for (const [, parameter] of route.url.matchAll(/:(\w*id)\b/g)) expect(foreign, name).toHaveProperty(parameter!);
    const answer = await gateway.call(route.method, addressOf(route, foreign), stranger, rightBodies[name]);
    tried.push(name);
    if (route.url.endsWith('/analytics')) {
      expect([answer.status, answer.json.totals.requests], name).toEqual([200, 0]);
    } else {
      expect(answer.status, `${name}: ${answer.text}`).toBe(404);
    }
  }
  expect(tried.length).toBeGreaterThan(8);
  expect(await seen()).toEqual(before);
});

test('no secret that was issued is in the log, the database, the journal or any other file', async () => {
  const { refresh_token } = (await gateway.call('POST', '/api/v1/auth/login', '', strangerLogin)).json;
  const refreshed = (await gateway.call('POST', '/api/v1/auth/refresh', '', { refresh_token })).json;
  const rotated = await gateway.call('POST', `/api/v1/api-keys/${foreign.key_id}/rotate`, session, {
    grace_period_seconds: 60,
  });
  expect(rotated.status, rotated.text).toBe(200);
  const secret = await gateway.call('POST', '/v1/realtime/client_secrets', keys.inference, {});
  for (const text of [refresh_token, refreshed.refresh_token, refreshed.access_token, rotated.json.key])
    issued.add(text);
  issued.add(secret.json.value);
  await gateway.call('GET', `/v1/models?api_key=${keys.inference}`, keys.inference);
  for (const body of [chat, { ...chat, stream: true }, { ...chat, background: true }]) {
    expect((await gateway.call('POST', '/v1/chat/completions', keys.inference, body)).status).toBeLessThan(300);
  }
  expect(issued.size).toBeGreaterThan(11);
  const places = { log: logLines.join(''), database: await dump(), files: filesBelow(gateway.env.dataDir) };
  for (const [place, text] of Object.entries(places)) {
    // This is where it would be: the key's name or preview, which is no secret, is there.
    expect(text.length, place).toBeGreaterThan(1_000);
    for (const secret of issued) {
      expect(secret, place).toBeTypeOf('string');
      for (const form of [secret, Buffer.from(secret).toString('hex'), Buffer.from(secret).toString('base64')]) {
        expect(text.includes(form), `${secret.slice(0, 12)}… in ${place}`).toBe(false);
      }
    }
  }
  expect(places.database).toContain(keys.inference.slice(0, 12));
});

/** Every row of every table as text; bytes as hexadecimal digits. */
async function dump(): Promise<string> {
  const tables = await rowsOf(
    database.url,
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname not in ('pg_catalog', 'information_schema')`,
  );
  const entries = tables.map(({ name }) => `select entry::text as text from ${name} entry`);
  return (await rowsOf(database.url, entries.join(' union all '))).map(({ text }) => text).join('\n');
}

const filesBelow = (directory: string): string =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'))
    .join('\n');
