import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { owner, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { hostileTexts, placesOfText } from '../support/hostile-texts.ts';
import { memoryGrowth } from '../support/memory.ts';
import { rowsOf } from '../support/postgres.ts';
import { rawRequest } from '../support/raw-request.ts';
import { waitFor } from '../support/wait-for.ts';

let gateway: TestGateway;
let session: string;
let key: string;
let upstream: Server;
/** What the upstream was last sent. */
let received: { headers: IncomingHttpHeaders; body: string };

beforeAll(async () => {
  upstream = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    // Probes arrive at any time.
    if (request.method === 'POST') received = { headers: request.headers, body };
    response.writeHead(200, {
      'content-type': 'application/json',
      'set-cookie': 'upstream=secret',
      'x-ratelimit-limit-requests': '1',
      'x-request-id': 'of-the-upstream',
      'openai-organization': 'the-upstreams-own',
      server: 'upstream/1.0',
    });
    response.end(
      JSON.stringify({
        id: 'chatcmpl-1',
        object: 'chat.completion',
        created: 1,
        model: 'm',
        choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      }),
    );
  });
  await once(upstream.listen(0, '127.0.0.1'), 'listening');
  gateway = await startTestGateway({ env: { UPSTREAM_SECURITY_TEST_KEY: 'the-upstreams-own-key' } });
  session = await gateway.login();
  key = (await gateway.createKey(session)).key;
  const admin = (path: string, body: object) => gateway.call('POST', `/api/v1/admin${path}`, session, body);
  await admin('/models', { name: 'echo', operations: ['chat_completions'] });
  await admin('/models', { name: 'ears', operations: ['audio_transcriptions'] });
  await admin('/models', { name: 'brush', operations: ['images_generations'] });
  for (const model of ['echo', 'ears', 'brush']) {
    const made = await admin('/deployments', {
      model,
      base_url: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
      secret_reference: 'env:UPSTREAM_SECURITY_TEST_KEY',
    });
    expect(made.json.status, made.text).toBe('Running');
  }
});
afterAll(async () => {
  await gateway?.[Symbol.asyncDispose]();
  upstream?.close();
});

const chat = { model: 'echo', messages: [{ role: 'user', content: 'Hi' }] };
const post = (body: object, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

const raw = (bytes: string): Promise<string> => rawRequest(gateway.url, bytes);

describe('between the client and the upstream', () => {
  test('what a body says about addresses and keys is passed on as words, and changes nothing', async () => {
    const extra = { base_url: 'http://evil.example', api_key: 'evil', headers: { authorization: 'Bearer evil' } };
    expect((await post({ ...chat, ...extra })).status).toBe(200);
    expect(JSON.parse(received.body)).toMatchObject(extra);
    expect(received.headers.authorization).toBe('Bearer the-upstreams-own-key');
  });

  test.each([
    'models',
    'fallbacks',
    'context_window_fallbacks',
    'content_policy_fallbacks',
    'router_settings_override',
    'preset',
  ])(
    'an upstream that routes itself is named no further models in %s: nobody would check or charge them',
    async (field) => {
      received = { headers: {}, body: '' };
      const refused = await post({ ...chat, [field]: ['somebody/elses'], mock_testing_fallbacks: true });
      expect(refused.status).toBe(400);
      expect(await refused.json()).toMatchObject({ error: { param: field, code: 'unsupported_parameter' } });
      expect(received.body).toBe('');
      expect((await post({ ...chat, [field]: null })).status).toBe(200);
    },
  );

  test('nor in the options of Vercel’s gateway, whose others it gets', async () => {
    const options = (given: string) =>
      fetch(`${gateway.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: `{${JSON.stringify(chat).slice(1, -1)},"providerOptions":{"openai":{},"gateway":${given}}}`,
      });
    const refusals = { '{"models":["somebody/elses"]}': 'unsupported_parameter', '{},"gateway":{}': 'duplicate_field' };
    for (const [given, code] of Object.entries(refusals)) {
      received = { headers: {}, body: '' };
      const refused = await options(given);
      expect(refused.status).toBe(400);
      const message = expect.stringContaining('`providerOptions.gateway');
      expect(await refused.json()).toMatchObject({ error: { code, message } });
      expect(received.body).toBe('');
    }
    for (const given of ['{"order":["azure"],"models":null}', 'null']) {
      expect((await options(given)).status).toBe(200);
      expect(JSON.parse(received.body)).toMatchObject({ providerOptions: { gateway: JSON.parse(given) } });
    }
  });

  test('nor for writing the drawing of an image', async () => {
    const draw = (svg: string) =>
      fetch(`${gateway.url}/v1/images/generations`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: `{"model":"brush","prompt":"A cat","output_format":"svg","svg":${svg}}`,
      });
    const refusals = {
      '{"model":"somebody/elses"}': 'unsupported_parameter',
      '{"model":null,"model":"x"}': 'duplicate_field',
    };
    for (const [given, code] of Object.entries(refusals)) {
      received = { headers: {}, body: '' };
      const refused = await draw(given);
      expect(refused.status).toBe(400);
      expect(await refused.json()).toMatchObject({ error: { param: 'svg.model', code } });
      expect(received.body).toBe('');
    }
    for (const given of ['{"reasoning":{"effort":"low"},"model":null}', 'null']) {
      received = { headers: {}, body: '' };
      await draw(given);
      expect(JSON.parse(received.body)).toMatchObject({ svg: JSON.parse(given) });
    }
  });

  test.each(['models', 'fallbacks', 'fallbacks[]', 'context_window_fallbacks[]', 'content_policy_fallbacks[0]'])(
    'nor in the field %s of a form, of which LiteLLM makes a list',
    async (field) => {
      received = { headers: {}, body: '' };
      const form = new FormData();
      form.append('model', 'ears');
      form.append(field, 'somebody/elses');
      form.append('file', new Blob([Buffer.alloc(64)]), 'speech.wav');
      const refused = await fetch(`${gateway.url}/v1/audio/transcriptions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
        body: form,
      });
      expect(refused.status).toBe(400);
      const param = field.replace(/\[.*/, '');
      expect(await refused.json()).toMatchObject({ error: { param, code: 'unsupported_parameter' } });
      expect(received.body).toBe('');
    },
  );

  test('no header of the client reaches the upstream, least of all its key', async () => {
    received = { headers: {}, body: '' };
    await post(chat, {
      cookie: 'a=b',
      'x-forwarded-for': '203.0.113.7',
      'openai-organization': 'org-theirs',
      'x-api-key': 'k',
      'x-client-request-id': 'theirs',
    });
    expect(JSON.parse(received.body)).toMatchObject({ messages: chat.messages });
    const headers = JSON.stringify(received.headers);
    for (const secret of [key, 'a=b', '203.0.113.7', 'x-api-key', 'theirs']) expect(headers).not.toContain(secret);
    expect(Object.keys(received.headers).sort()).toEqual(
      [
        'accept',
        'accept-encoding',
        'authorization',
        'connection',
        'content-length',
        'content-type',
        'host',
        'x-client-request-id',
      ].filter((name) => received.headers[name] !== undefined),
    );
  });

  test('cookies, limits and names of the upstream do not reach the client', async () => {
    const { headers } = await post(chat);
    for (const name of ['set-cookie', 'server', 'openai-organization']) expect(headers.has(name)).toBe(false);
    expect(headers.get('x-request-id')).toMatch(/^req_/);
    expect(Number(headers.get('x-ratelimit-limit-requests'))).toBeGreaterThan(1);
  });
});

describe('the decision is the same', () => {
  test.each([
    ['a hostile Host', '/v1/models', 'evil.example'],
    ['an absolute URI', 'http://evil.example/v1/models', 'evil.example'],
    ['an internal Host', '/v1/models', '127.0.0.1:8081'],
  ])('with %s', async (_what, target, host) => {
    const request = (credential: string) =>
      raw(`GET ${target} HTTP/1.1\r\nhost: ${host}\r\n${credential}connection: close\r\n\r\n`);
    expect(await request('')).toMatch(/^HTTP\/1\.1 401 /);
    const answer = await request(`authorization: Bearer ${key}\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer).not.toContain('evil.example');
  });

  test('whatever internal headers a client invents', async () => {
    const own = (await gateway.call('GET', '/api/v1/profile', session)).json;
    const invented = {
      'x-tenant-id': '00000000-0000-0000-0000-000000000000',
      'x-user-id': '00000000-0000-0000-0000-000000000000',
      'x-role': 'owner',
      'x-caller': 'operator',
      'x-service-token': 'x',
      'x-request-id': 'mine',
    };
    const response = await fetch(`${gateway.url}/api/v1/profile`, {
      headers: { authorization: `Bearer ${session}`, ...invented },
    });
    expect(await response.json()).toEqual(own);
    expect(response.headers.get('x-request-id')).not.toBe('mine');
    const without = await fetch(`${gateway.url}/api/v1/profile`, { headers: invented });
    expect(without.status).toBe(401);
  });

  test('about where a link in a mail leads, whatever Host the mail was requested with', async () => {
    const send = async (path: string, body: string, credential = '') =>
      raw(
        `POST ${path} HTTP/1.1\r\nhost: evil.example\r\nx-forwarded-host: evil.example\r\nforwarded: host=evil.example\r\n` +
          `${credential}content-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
      );
    const authorization = `authorization: Bearer ${session}\r\n`;
    const invitation = JSON.stringify({ email: 'colleague@example.com', role: 'member' });
    expect(await send('/api/v1/invitations', invitation, authorization)).toMatch(/^HTTP\/1\.1 201 /);
    expect(await send('/api/v1/auth/password/forgot', JSON.stringify({ email: owner.email }))).toMatch(
      /^HTTP\/1\.1 20\d /,
    );
    for (const email of ['colleague@example.com', owner.email]) {
      const path = `/api/v1/admin/mail?search=${email}`;
      const { text } = await waitFor(async () => (await gateway.call('GET', path, session)).json.data[0], {
        description: `the mail to ${email}`,
      });
      expect(text).toContain('http://gateway.test/');
      expect(text).not.toContain('evil.example');
    }
  });

  test('for a form of another site: cookies are read for nothing but refreshing a session', async () => {
    for (const [path, body] of [
      ['/api/v1/api-keys', 'name=evil'],
      ['/v1/chat/completions', '{}'],
    ] as const) {
      const response = await fetch(gateway.url + path, {
        method: 'POST',
        headers: {
          origin: 'null',
          cookie: `session=${session}; access_token=${session}`,
          'content-type': 'text/plain',
        },
        body,
      });
      expect(response.status).toBe(401);
    }
  });
});

/** Fails unless it is a refusal in the documented shape that reveals nothing internal. */
function expectRefusal(what: string, status: number, text: string): void {
  expect(status, `${what}: ${text.slice(0, 300)}`).toBeLessThan(500);
  if (status < 400) return;
  const { error } = JSON.parse(text);
  expect(Object.keys(error).sort(), what).toEqual(['code', 'message', 'param', 'type']);
  expect(text, what).not.toMatch(/node_modules|\bat .*\.ts:\d|select |insert into|postgres|syntax error at/i);
}

describe('hostile text is a refusal or a name like any other', () => {
  test.each(Object.entries(placesOfText))('as %s', async (_where, request) => {
    for (const text of hostileTexts) {
      const [method, path, body] = request(text);
      const answer = await gateway.call(method, path, session, body);
      expectRefusal(`${method} ${path.slice(0, 200)}`, answer.status, answer.text);
    }
  });

  test('as a bearer token', async () => {
    for (const text of hostileTexts.filter((word) => /^[\x20-\x7e]*$/.test(word))) {
      const answer = await gateway.call('GET', '/v1/models', text.slice(0, 4_000));
      expect([400, 401]).toContain(answer.status);
      expectRefusal(text, answer.status, answer.text);
    }
  });

  test('and however long and repetitive, costs less than 50 ms of work', async () => {
    const pieces = ['%_', 'a@', '1.', ':', ' ', '::ffff:', '\\', '/..', '-a', "''"];
    for (const [where, request] of Object.entries(placesOfText)) {
      for (const piece of pieces) {
        const spentMs: number[] = [];
        for (let attempt = 0; attempt < 3 && Math.min(...spentMs) >= 50; attempt++) {
          // Bodies may be longer than addresses.
          const takesBody = request('x').length === 3;
          const [method, path, body] = request(piece.repeat((takesBody ? 100_000 : 2_000) / piece.length));
          // Only of this thread, which serves everyone: a password is hashed on another, and takes as long as it should.
          const before = process.threadCpuUsage();
          const answer = await gateway.call(method, path, session, body);
          const { user, system } = process.threadCpuUsage(before);
          spentMs.push((user + system) / 1_000);
          expect(answer.status, `${where} of many ${piece}`).toBeLessThan(500);
        }
        expect(Math.min(...spentMs), `${where} of many ${piece}`).toBeLessThan(50);
      }
    }
  });

  test('and changes no prototype', async () => {
    await gateway.call('GET', '/api/v1/api-keys?__proto__[polluted]=1&constructor[prototype][polluted]=1', session);
    await raw(`GET /v1/models HTTP/1.1\r\nhost: x\r\n__proto__: polluted\r\nconnection: close\r\n\r\n`);
    const body = '{"name":"ab","__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}';
    await gateway.call('POST', '/api/v1/api-keys', session, body);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });
});

describe('a name is one line', () => {
  const accepted = { token: 'x', password: 'Passw0rd!', first_name: 'Ada', last_name: 'L' };
  const places: [method: string, path: string, field: string, rest: object][] = [
    ['PATCH', '/organization', 'name', {}],
    ['PATCH', '/profile', 'first_name', {}],
    ['PATCH', '/profile', 'last_name', {}],
    ['PATCH', '/profile', 'phone', {}],
    ['POST', '/auth/accept-invite', 'first_name', accepted],
    ['POST', '/auth/accept-invite', 'last_name', accepted],
    ['POST', '/auth/accept-invite', 'phone', accepted],
    ['POST', '/auth/accept-invite', 'organization_name', accepted],
    ['POST', '/api-keys', 'name', {}],
    ['PATCH', '/api-keys/KEY', 'name', {}],
    ['POST', '/admin/organizations', 'name', { owner_email: 'new@example.com' }],
    ['PATCH', '/admin/organizations/TENANT', 'name', {}],
    ['PATCH', '/admin/models/echo', 'display_name', {}],
    ['PATCH', '/admin/models/echo', 'owned_by', {}],
    ['PUT', '/admin/plans/lines', 'name', { payg_enabled: true }],
    ['POST', '/admin/organizations/TENANT/credits', 'description', { amount_usd: 1 }],
    ['POST', '/admin/organizations/TENANT/adjustments', 'description', { amount_usd: 1 }],
  ];
  let ids: Record<string, string>;
  beforeAll(async () => {
    const { organization } = (await gateway.call('GET', '/api/v1/profile', session)).json;
    const keys = (await gateway.call('GET', '/api/v1/api-keys', session)).json.data;
    ids = { KEY: keys[0].id, TENANT: organization.id };
  });

  test.each(places)(
    '%s %s accepts no line break, control character or heap of accents as %s',
    async (method, path, field, rest) => {
      const address = `/api/v1${path.replace(/[A-Z]+/, (name) => ids[name]!)}`;
      for (const character of [
        '\u0301'.repeat(60),
        '\n',
        '\r\n',
        '\t',
        '\u001b',
        '\u007f',
        '\u0085',
        '\u2028',
        '\u202e',
      ]) {
        const answer = await gateway.call(method, address, session, { ...rest, [field]: `Two${character}lines` });
        expect(answer.status, JSON.stringify(character)).toBe(400);
        expect(answer.json.error).toMatchObject({ param: field, code: 'invalid_value' });
      }
    },
  );

  test.each(places)('%s %s accepts no invisible text as %s', async (method, path, field, rest) => {
    const address = `/api/v1${path.replace(/[A-Z]+/, (name) => ids[name]!)}`;
    for (const text of ['\u200b\u200b\u200b', '\u00ad\u2060\u3164', '  \u00a0\u200d']) {
      const answer = await gateway.call(method, address, session, { ...rest, [field]: text });
      expect([answer.status, answer.json.error?.param], JSON.stringify(text)).toEqual([400, field]);
    }
  });

  test('in any script, and an older name can still be read', async () => {
    const name = 'Zoë 王 नमस्ते བསྒྲུབས בְּרֵאשִׁ֖ית Việt 👩‍👩‍👧';
    expect((await gateway.call('PATCH', '/api/v1/organization', session, { name })).json.name).toBe(name);
    await rowsOf(gateway.env.databaseUrl!, 'update auth.organizations set name = $1', ['Two\nlines']);
    expect((await gateway.call('GET', '/api/v1/organization', session)).json.name).toBe('Two\nlines');
  });
});

test.each([
  ['/api/v1/api-keys', 'application/json', (text: string) => JSON.stringify(text)],
  ['/v1/chat/completions', 'application/json', (text: string) => JSON.stringify(text)],
  [
    '/v1/audio/transcriptions',
    'multipart/form-data; boundary=b',
    (text: string) => `--b\r\ncontent-disposition: form-data; name="prompt"\r\n\r\n${text}\r\n--b--\r\n`,
  ],
])(
  'a body that comes in pieces of one byte takes hardly more memory than one in large pieces: POST %s',
  async (path, type, bodyOf) => {
    const bytesMax = 8 * 1024 * 1024;
    const pieces = [...bodyOf('x'.repeat(100_000))].map((character) => `1\r\n${character}\r\n`).join('');
    let answer = '';
    const growthBytes = await memoryGrowth(bytesMax, async () => {
      answer = await raw(
        `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${path.startsWith('/api/') ? session : key}\r\n` +
          `content-type: ${type}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n${pieces}0\r\n\r\n`,
      );
    });
    expect(answer.slice(0, 12)).toBe('HTTP/1.1 400');
    expect(growthBytes).toBeLessThan(bytesMax);
  },
);

test('random requests are answered, never with a 5xx', { timeout: 120_000 }, async () => {
  const path = fc.constantFrom(
    '/v1/chat/completions',
    '/v1/completions',
    '/v1/embeddings',
    '/v1/images/generations',
    '/v1/audio/speech',
    '/v1/models',
    '/api/v1/api-keys',
    '/api/v1/auth/login',
    '/api/v1/auth/refresh',
    '/api/v1/profile',
    '/api/v1/usage/summary',
    '/api/v1/profile/cost-limit',
    '/api/v1/admin/models',
    '/api/v1/admin/deployments',
    '/api/v1/admin/prices',
    '/api/v1/admin/coupons',
  );
  const request = fc.record({
    path,
    method: fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'DELETE'),
    body: fc.oneof(
      fc.json({ maxDepth: 3 }),
      fc.string({ maxLength: 200 }),
      fc
        .dictionary(
          fc.constantFrom(
            'model',
            'messages',
            'stream',
            'name',
            'scopes',
            'email',
            'password',
            'limit_usd',
            'input',
            'n',
          ),
          fc.jsonValue({ maxDepth: 3 }),
        )
        .map((value) => JSON.stringify(value)),
    ),
  });
  const check = async ({ path, method, body }: { path: string; method: string; body: string }): Promise<void> => {
    const token = path.startsWith('/v1') ? key : session;
    const answer = await gateway.call(method, path, token, method === 'GET' ? undefined : body);
    expectRefusal(`${method} ${path} ${body}`, answer.status, answer.text);
  };
  await fc.assert(fc.asyncProperty(request, check), { numRuns: process.env.LONG === '1' ? 20_000 : 300 });
});
