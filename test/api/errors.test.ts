import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { makeKeySecret } from '#shared/key-secret.ts';
import { ClockAhead } from '../support/clock-ahead.ts';
import { type Answer, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { rawRequest } from '../support/raw-request.ts';

/* The rows of openai-contract.md section 2 that a single request can trigger. */

let gateway: TestGateway;
/** A second gateway, whose clock can be moved ahead. */
let bystander: TestGateway;
const clock = new ClockAhead();
const logLines: string[] = [];
let session: string;
let key: string;

beforeAll(async () => {
  gateway = await startTestGateway();
  bystander = await startTestGateway({ clock, logLines });
  session = await gateway.login();
  key = (await gateway.createKey(session)).key;
});
afterAll(async () => {
  await gateway?.[Symbol.asyncDispose]();
  await bystander?.[Symbol.asyncDispose]();
});

function expectError(
  answer: Answer,
  status: number,
  error: { type: string; code: string | null; param?: string | null },
): void {
  expect(answer.status, answer.text).toBe(status);
  expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
  expect(answer.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{32}$/);
  expect(Object.keys(answer.json.error).sort()).toEqual(['code', 'message', 'param', 'type']);
  expect(answer.json.error).toMatchObject({ param: null, ...error });
  expect(answer.json.error.message).not.toBe('');
}

const invalid = (code: string | null, param: string | null = null) => ({ type: 'invalid_request_error', code, param });
const body = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };

const post = (headers: Record<string, string>, text: string | Buffer, path = '/v1/chat/completions') =>
  gateway.call('POST', path, '', text, headers);

describe('an invalid credential', () => {
  test('a missing one is asked for', async () => {
    const answer = await gateway.call('POST', '/v1/chat/completions', '', body);
    expectError(answer, 401, invalid('missing_api_key'));
    expect(answer.headers.get('www-authenticate')).toBe('Bearer');
  });

  test.each([
    ['a malformed key', 'sk-proj-short'],
    ['a key of another service', `sk-${'B'.repeat(48)}`],
    ['a word', 'hunter2-hunter2'],
    ['a key with a wrong checksum', `sk-proj-${'A'.repeat(49)}`],
    ['a key that was never issued', makeKeySecret(new Uint8Array(32).fill(7))],
  ])('%s is refused and never echoed', async (_what, secret) => {
    const answer = await gateway.call('POST', '/v1/chat/completions', secret, body);
    expectError(answer, 401, invalid('invalid_api_key'));
    expect(answer.text).not.toContain(secret);
  });

  test.each([
    ['x-api-key', (secret: string) => ({ 'x-api-key': secret })],
    ['basic', (secret: string) => ({ authorization: `Basic ${Buffer.from(`:${secret}`).toString('base64')}` })],
    ['cookie', (secret: string) => ({ cookie: `api_key=${secret}` })],
  ])('a good key is not read from the wrong place: %s', async (_carrier, headers) => {
    expectError(await post(headers(key), JSON.stringify(body)), 401, invalid('missing_api_key'));
  });

  test('a key in the query is not read', async () => {
    const answer = await post({}, JSON.stringify(body), `/v1/chat/completions?api_key=${key}`);
    expectError(answer, 401, invalid('missing_api_key'));
  });

  test('two Authorization headers, or a list of two, are refused, even if one is good', async () => {
    const [good, other] = [`Bearer ${key}`, 'Bearer other'];
    for (const lines of [[good, other], [other, good], [good, good], [`${good}, ${other}`], [`${other},${good}`]]) {
      const headers = lines.map((line) => `authorization: ${line}\r\n`).join('');
      const raw = await rawRequest(
        gateway.url,
        `GET /v1/models HTTP/1.1\r\nhost: gateway\r\n${headers}connection: close\r\n\r\n`,
      );
      expect(raw).toMatch(/^HTTP\/1\.1 401 /);
    }
  });

  test('a session that has ended, or a token that is no session', async () => {
    const over = await bystander.login();
    expect((await bystander.call('GET', '/v1/models', over)).status).toBe(200);
    clock.aheadMs = 30 * 60_000;
    try {
      expectError(await bystander.call('GET', '/v1/models', over), 401, invalid('expired_token'));
      expectError(await bystander.call('GET', '/api/v1/profile', over), 401, invalid('expired_token'));
    } finally {
      clock.aheadMs = 0;
    }
    const forged = `${over.slice(0, over.lastIndexOf('.'))}.${'A'.repeat(86)}`;
    expectError(await bystander.call('GET', '/v1/models', forged), 401, invalid('invalid_token'));
  });
});

test('a refusal is in the log under the request id that the client got', async () => {
  const answer = await bystander.call('GET', '/v1/nothing');
  const lines = logLines.map((line) => JSON.parse(line));
  expect(lines).toContainEqual(
    expect.objectContaining({
      requestId: answer.headers.get('x-request-id'),
      status: 404,
      msg: answer.json.error.message,
    }),
  );
});

describe('an unreadable body', () => {
  const auth = () => ({ authorization: `Bearer ${key}` });

  test.each([
    ['broken', '{"model":'],
    ['empty', ''],
    ['followed by garbage', `${JSON.stringify(body)}x`],
    ['not UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ['an array', '[]'],
    ['a string', '"hello"'],
    ['nested too deeply', `{"model":"sandbox-chat","messages":${'['.repeat(100_000)}${']'.repeat(100_000)}}`],
  ])('%s: 400', async (_what, text) => {
    expectError(await post(auth(), text), 400, invalid(null));
  });

  test.each([['text/plain'], ['application/xml'], ['application/json\ta'], ['application/jsonx']])(
    'Content-Type %s: 415',
    async (contentType) => {
      expectError(
        await post({ ...auth(), 'content-type': contentType }, JSON.stringify(body)),
        415,
        invalid('unsupported_content_type'),
      );
    },
  );

  test.each([
    ['application/json', '/v1/chat/completions', gzipSync(JSON.stringify(body))],
    ['application/json', '/api/v1/api-keys', gzipSync('{"name":"a key"}')],
    ['multipart/form-data; boundary=b', '/v1/audio/transcriptions', gzipSync('--b--\r\n')],
  ])('a compressed body of %s to %s: 415 naming the encoding to use', async (contentType, path, bytes) => {
    const bearer = path.startsWith('/api/') ? session : key;
    const headers = { authorization: `Bearer ${bearer}`, 'content-type': contentType, 'content-encoding': 'gzip' };
    const answer = await post(headers, bytes, path);
    expectError(answer, 415, invalid('unsupported_content_type'));
    expect(answer.json.error.message).toContain('Content-Encoding');
    expect(answer.headers.get('accept-encoding')).toBe('identity');
  });

  const members = Array.from({ length: 1_000_000 }, (_, index) => `"k${index}":0`).join(',');
  test.each([
    ['a million members', `{"model":"sandbox-chat","messages":[],${members}}`, null, null],
    ['a million members within', `{"model":"sandbox-chat","messages":[],"x":{${members}}}`, null, null],
    ['two million elements', `{"model":"sandbox-chat","messages":[],"x":[${'0,'.repeat(2_000_000)}0]}`, null, null],
    ['brackets a hundred thousand deep', `{"model":"sandbox-chat","x":${'{"a":'.repeat(100_000)}`, null, null],
    ['a number that no double holds', '{"model":"sandbox-chat","messages":[],"n":1e400}', 'invalid_value', 'n'],
  ])('%s: 400, without making anyone else wait while it is parsed', async (_what, text, code, param) => {
    const parse = vi.spyOn(JSON, 'parse');
    try {
      expectError(await post(auth(), text), 400, invalid(code, param));
      const longest = Math.max(...parse.mock.calls.map(([parsed]) => String(parsed).length));
      expect(longest).toBeLessThan(10_000);
    } finally {
      parse.mockRestore();
    }
  });

  test('a body that declares the identity encoding is accepted', async () => {
    expect((await post({ ...auth(), 'content-encoding': 'Identity' }, JSON.stringify(body))).status).toBe(200);
  });

  const expectTooLarge = (answer: Answer, most: string) => {
    expectError(answer, 413, invalid('request_too_large'));
    expect(answer.json.error.message).toBe(`The request body is too large: this endpoint takes at most ${most}.`);
  };

  test('larger than the limit: 413', async () => {
    expectTooLarge(await post(auth(), Buffer.alloc(33 * 1024 * 1024, 0x20)), '32 MiB');
  });

  test('larger than 1 MiB where it is no model call, and in a payment event: 413', async () => {
    const rename = (name: string) => gateway.call('PATCH', '/api/v1/organization', session, { name });
    expect((await rename('x'.repeat(mebibyte / 2))).status).toBe(400);
    expectTooLarge(await rename('x'.repeat(mebibyte)), '1 MiB');
    const event = { type: 'x'.repeat(mebibyte) };
    expectTooLarge(await gateway.call('POST', '/api/v1/webhooks/payments', '', event), '1 MiB');
  });

  test('larger than 64 KiB before anybody has signed in: 413', async () => {
    const login = (password: string) =>
      gateway.call('POST', '/api/v1/auth/login', '', { email: 'a@b.example', password });
    expect((await login('x'.repeat(60 * 1024))).status).toBe(400);
    expectTooLarge(await login('x'.repeat(64 * 1024)), '65535 bytes');
  });

  const json = ['/v1/chat/completions', 'application/json'] as const;
  const form = ['/v1/audio/transcriptions', 'multipart/form-data; boundary=b'] as const;
  const part = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n';
  test.each([
    ['of JSON', json, '', 'content-length: 41943040'],
    ['of JSON in chunks', json, '', 'transfer-encoding: chunked'],
    ['of a form', form, part, 'content-length: 41943040'],
    ['of a form in chunks', form, part, 'transfer-encoding: chunked'],
  ])('a client that sends all of a too large body %s before it reads gets its answer', async (_what, to, first, by) => {
    const socket = await sending(to, by);
    const isChunked = by.startsWith('transfer');
    let left = 40 * mebibyte;
    for (let piece = Buffer.from(first || ' '); left > 0; piece = Buffer.alloc(Math.min(left, mebibyte), ' ')) {
      await write(socket, isChunked ? chunkOf(piece) : piece);
      left -= piece.length;
    }
    if (isChunked) await write(socket, '0\r\n\r\n');
    let answer = '';
    for await (const piece of socket.setEncoding('utf8')) answer += piece;
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
    expect(answer).toContain('request_too_large');
  });

  test.each([
    ['an unknown address', 404, ['/v1/nothing', 'application/json'] as const],
    ['a bad key', 401, json],
  ])(
    'a client that keeps no connection and sends all of a body to %s before it reads gets its %i',
    async (_what, status, to) => {
      const socket = await sending(to, `connection: close\r\ncontent-length: ${20 * mebibyte}`, 'bad');
      for (let sent = 0; sent < 20; sent += 1) await write(socket, Buffer.alloc(mebibyte, ' '));
      let answer = '';
      for await (const piece of socket.setEncoding('utf8')) answer += piece;
      expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    },
  );

  test('an endless body is cut off', async () => {
    const socket = await sending(json, 'transfer-encoding: chunked');
    let sentBytes = 0;
    const piece = chunkOf(Buffer.alloc(mebibyte));
    const sendingAll = async () => {
      for (; sentBytes < 1024 * mebibyte; sentBytes += mebibyte) await write(socket, piece);
    };
    await expect(sendingAll()).rejects.toThrow();
    // The network's own buffers hold some of it.
    expect(sentBytes).toBeLessThan(128 * mebibyte);
  });

  test.each([
    [{ messages: [] }, 'missing_required_field', 'model'],
    [{ ...body, model: '' }, 'missing_required_field', 'model'],
    [{ ...body, model: 7 }, 'invalid_value', 'model'],
    [{ ...body, model: null }, 'invalid_value', 'model'],
    [{ ...body, stream: 'yes' }, 'invalid_value', 'stream'],
    [{ ...body, n: 0 }, 'invalid_value', 'n'],
    [{ ...body, n: 1e9 }, 'invalid_value', 'n'],
    [{ ...body, max_tokens: -1 }, 'invalid_value', 'max_tokens'],
    [{ ...body, max_tokens: 1e9 }, 'invalid_value', 'max_tokens'],
  ])('%j names the field', async (wrong, code, param) => {
    expectError(await gateway.call('POST', '/v1/chat/completions', key, wrong), 400, invalid(code, param));
  });

  test('a duplicate field is refused, since parsers differ on which one counts', async () => {
    const text = '{"model":"sandbox-chat","messages":[],"model":"sandbox-chat-mini"}';
    expectError(await post(auth(), text), 400, invalid('duplicate_field', 'model'));
  });
});

describe('a wrong address', () => {
  test('an unknown URL: 404', async () => {
    expectError(await gateway.call('GET', '/v1/nothing', key), 404, invalid('unknown_url'));
  });

  test.each([
    ['broken JSON', '{'],
    ['two megabytes', JSON.stringify('x'.repeat(2_000_000))],
  ])('an unknown URL is named as that, not the fault of its body: %s', async (_what, text) => {
    expectError(await gateway.call('POST', '/v1/nothing', key, text), 404, invalid('unknown_url'));
  });

  test.each([
    ['/v1/responses', '/v1/chat/completions'],
    ['/v1/realtime/transcription_sessions', '/v1/realtime/client_secrets'],
    ['/v1/realtime/sessions', '/v1/realtime/client_secrets'],
  ])('%s, which OpenAI has or had, says what to use instead', async (path, meant) => {
    const answer = await gateway.call('POST', path, key, {});
    expectError(answer, 404, invalid('unknown_url'));
    expect(answer.json.error.message).toContain(`Use POST ${meant} instead.`);
  });

  test.each([
    ['POST', '/chat/completions', '/v1/chat/completions'],
    ['POST', '/v1/v1/embeddings', '/v1/embeddings'],
    ['POST', '/v1//chat/completions', '/v1/chat/completions'],
    ['GET', '/api/v1/models/', '/v1/models'],
    ['POST', '/openai/v1/chat/completions', '/v1/chat/completions'],
    ['GET', '/v1/jobs/job_1', '/api/v1/jobs/job_1'],
    ['POST', '/v1/chat/completions/chat/completions', '/v1/chat/completions'],
    ['GET', '/v1/chat/completions/models', '/v1/models'],
    ['POST', '/openai/deployments/sandbox-chat/chat/completions?api-version=2024-06-01', '/v1/chat/completions'],
    ['POST', '/v1/engines/sandbox-embed/embeddings', '/v1/embeddings'],
    ['POST', '/openai/deployments//chat/completions', '/v1/chat/completions'],
  ])('%s %s, the result of a wrong base URL or client, says where to go', async (method, path, meant) => {
    const answer = await gateway.call(method, path, key, method === 'POST' ? body : undefined);
    expectError(answer, 404, invalid('unknown_url'));
    expect(answer.json.error.message).toContain(`Use ${method} ${meant} instead.`);
  });

  test('a wrong method: 405 with Allow', async () => {
    const answer = await gateway.call('GET', '/v1/chat/completions', key);
    expectError(answer, 405, invalid('method_not_supported'));
    expect(answer.headers.get('allow')).toBe('POST');
  });

  test.each(['/healthz', '/readyz', '/metrics', '/openapi.json'])(
    'a wrong method of %s: 405 with Allow',
    async (path) => {
      const answer = await gateway.call('PUT', path);
      expectError(answer, 405, invalid('method_not_supported'));
      expect(answer.headers.get('allow')).toBe('GET, HEAD');
    },
  );

  test.each([
    ['TRACE', '/v1/models'],
    ['PROPFIND', '/v1/chat/completions'],
    ['QUERY', '/v1/chat/completions'],
    ['MKCOL', '/v1/nothing'],
    ['CONNECT', 'elsewhere.example:443'],
    ['BREW', '/v1/models'],
    ['get', '/v1/models'],
  ])('%s, a method that no endpoint supports: 501 in the documented shape', async (method, target) => {
    const raw = await rawRequest(gateway.url, `${method} ${target} HTTP/1.1\r\nhost: gateway\r\n\r\n`);
    expect(raw).toMatch(/^HTTP\/1\.1 501 Not Implemented\r\n/);
    expect(raw).toMatch(/x-request-id: req_/);
    expect(JSON.parse(raw.split('\r\n\r\n')[1]!)).toEqual({
      error: {
        message: expect.stringContaining(method),
        type: 'invalid_request_error',
        param: null,
        code: 'method_not_supported',
      },
    });
  });

  test('a body longer than its Content-Length, for instance counted in characters, is refused as such and not for its method', async () => {
    const text = '{"model":"sandbox-chat","messages":[{"role":"user","content":"Grüße"}]}';
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\n`;
    const raw = await rawRequest(gateway.url, `${head}content-length: ${text.length}\r\n\r\n${text}`);
    expect(raw).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(JSON.parse(raw.split('\r\n\r\n')[1]!)).toEqual({
      error: {
        message: expect.stringContaining('longer than its Content-Length'),
        type: 'invalid_request_error',
        param: null,
        code: null,
      },
    });
  });

  test('OPTIONS without a requested method is answered as for a browser, not in plain text', async () => {
    for (const path of ['/v1/models', '/v1/chat/completions', '/api/v1/api-keys']) {
      const answer = await gateway.call('OPTIONS', path);
      // Its Content-Length is for Safari; a 204 must have none (RFC 9110 section 8.6).
      expect([answer.status, answer.headers.get('content-length'), answer.text]).toEqual([200, '0', '']);
      expect(answer.headers.get('x-request-id')).toMatch(/^req_/);
    }
  });

  test('no cache keeps what is read, such as health, or a 404 at an address where browsers get a page', async () => {
    for (const [path, status] of [
      ['/healthz', 200],
      ['/keys', 404],
      ['/api/v1/profile', 200],
    ] as const) {
      const answer = await gateway.call('GET', path, session);
      expect([answer.status, answer.headers.get('cache-control')], path).toEqual([status, 'no-store']);
    }
  });

  test.each([
    ['an unknown model', 'nobody/knows:it'],
    ['a model with a name longer than any', 'x'.repeat(300)],
  ])('%s: 404 with param, called or looked up', async (_, model) => {
    for (const answer of [
      await gateway.call('POST', '/v1/chat/completions', key, { ...body, model }),
      await gateway.call('GET', `/v1/models/${model}`, key),
    ]) {
      expectError(answer, 404, invalid('model_not_found', 'model'));
    }
  });

  test('a model without that operation: 400', async () => {
    expectError(
      await gateway.call('POST', '/v1/chat/completions', key, { ...body, model: 'sandbox-embed' }),
      400,
      invalid('unsupported_model', 'model'),
    );
  });

  test('a badly encoded URL: 400, which pages may read and no cache may keep', async () => {
    const raw = await rawRequest(
      gateway.url,
      `GET /v1/models/%zz HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${key}\r\nconnection: close\r\n\r\n`,
    );
    expect(raw).toMatch(/^HTTP\/1\.1 400 /);
    expect(raw).toMatch(/\r\naccess-control-allow-origin: \*\r\n/);
    expect(raw).toMatch(/\r\ncache-control: no-store\r\n/);
  });

  test.each(['/v1/models/', '/api/v1/models/'])('%s: 404', async (path) => {
    expectError(await gateway.call('GET', path, key), 404, invalid('unknown_url'));
  });

  const get = 'GET /v1/models HTTP/1.1\r\nconnection: close\r\n';
  // Asks for keep-alive, but nobody knows where the next request begins after an unreadable body.
  const post = 'POST /v1/models HTTP/1.1\r\nhost: gateway\r\nconnection: keep-alive\r\n';
  const noChunk = '0\r\n\r\n';
  const upgrade =
    'GET /v1/realtime?intent=transcription HTTP/1.1\r\nhost: gateway\r\nconnection: upgrade\r\nupgrade: websocket\r\n';
  const version = 'sec-websocket-version: 13\r\n';
  const properKey = 'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
  test.each<[what: string, status: number, lines: string, rest?: string]>([
    ['what is not HTTP', 400, 'nonsense\r\n'],
    ['a request without a Host', 400, get],
    ['a request with two Hosts', 400, `${get}host: gateway\r\nhost: gateway\r\n`],
    ['a Host that is none', 400, `${get}host: gateway/v1@elsewhere\r\n`],
    [
      'a request with two Content-Types',
      400,
      `${get}host: gateway\r\ncontent-type: application/json\r\ncontent-type: text/plain\r\n`,
    ],
    ['a transfer coding that nobody knows', 501, `${post}transfer-encoding: gzip, chunked\r\n`, noChunk],
    [
      'one at a badly encoded URL',
      501,
      `${post.replace('models', '%zz')}transfer-encoding: gzip, chunked\r\n`,
      noChunk,
    ],
    ['one of two lines', 501, `${post}transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n`, noChunk],
    ['one that is no more', 501, `${post}transfer-encoding: identity, chunked\r\n`, noChunk],
    ['a transfer coding of HTTP/1.0', 400, `${post.replace('1.1', '1.0')}transfer-encoding: chunked\r\n`, noChunk],
    ['an expectation that nobody knows', 417, `${get}host: gateway\r\nexpect: miracles\r\n`],
    ['a head of more than 16 KiB', 431, `${get}host: gateway\r\nx-long: ${'x'.repeat(16 * 1024)}\r\n`],
    ['an upgrade without a proper key', 400, `${upgrade}${version}sec-websocket-key: short\r\n`],
    ['one of a version that is not spoken', 400, `${upgrade}${properKey}sec-websocket-version: 7\r\n`],
  ])('%s is answered in the documented shape: %i', async (_what, status, lines, rest = '') => {
    const raw = await rawRequest(
      gateway.url,
      `${lines}${lines.includes(':') ? `authorization: Bearer ${key}\r\n` : ''}\r\n${rest}`,
    );
    expect(raw).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(raw).toMatch(/x-request-id: req_/);
    // RFC 9110 section 6.6.1, and RFC 6455 section 4.4 of what a WebSocket may be.
    expect(raw).toMatch(/\r\ndate: .+ GMT\r\n/i);
    expect(/\r\nsec-websocket-version: 13\r\n/.test(raw)).toBe(lines.startsWith(upgrade));
    expect(JSON.parse(raw.split('\r\n\r\n')[1]!)).toEqual({
      error: { message: expect.any(String), type: 'invalid_request_error', param: null, code: null },
    });
  });

  test('an upgrade sent behind a request that is still being answered is refused in its turn, and its connection ends', async () => {
    const bearer = `authorization: Bearer ${key}\r\n`;
    const raw = await rawRequest(
      gateway.url,
      `GET /v1/models HTTP/1.1\r\nhost: gateway\r\n${bearer}\r\n${upgrade}${version}${properKey}${bearer}\r\n`,
    );
    expect(raw.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 426']);
  });
});

describe('a client that asks before it sends its body', () => {
  /** Sends the head, and the body only if it is asked for. */
  async function ask(headers: Record<string, string | number>, sent = Buffer.from(JSON.stringify(body))) {
    const asking = request(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        expect: '100-continue',
        'content-type': 'application/json',
        'content-length': sent.length,
        ...headers,
      },
    });
    let isAsked = false;
    asking.on('continue', () => {
      isAsked = true;
      asking.end(sent);
    });
    asking.flushHeaders();
    const [answer] = (await once(asking, 'response')) as [IncomingMessage];
    await text(answer);
    asking.destroy();
    return [isAsked, answer.statusCode, answer.headers.connection];
  }

  test('is asked for it if its head is in order', async () => {
    expect(await ask({ authorization: `Bearer ${key}` })).toEqual([true, 200, 'keep-alive']);
  });

  test('but sends it at once keeps its connection', async () => {
    // While it is looked up whose key it is, the body comes.
    const { key: newKey } = await gateway.createKey(await gateway.login());
    const head = `host: gateway\r\nauthorization: Bearer ${newKey}\r\n`;
    const sent = JSON.stringify(body);
    const post = `POST /v1/chat/completions HTTP/1.1\r\n${head}expect: 100-continue\r\ncontent-type: application/json\r\n`;
    const raw = await rawRequest(
      gateway.url,
      `${post}content-length: ${sent.length}\r\n\r\n${sent}GET /v1/models HTTP/1.1\r\n${head}connection: close\r\n\r\n`,
    );
    expect(raw.match(/HTTP\/1\.1 2\d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200']);
  });

  test.each<[what: string, status: number, headers: () => Record<string, string | number>]>([
    ['no key', 401, () => ({})],
    ['an invented key', 401, () => ({ authorization: `Bearer ${makeKeySecret(new Uint8Array(32).fill(7))}` })],
    ['a body that is too large', 413, () => ({ authorization: `Bearer ${key}`, 'content-length': 40 * 1024 ** 2 })],
    ['a type that is not read here', 415, () => ({ authorization: `Bearer ${key}`, 'content-type': 'text/plain' })],
  ])('is refused with %s before it has sent it: %i', async (_what, status, headers) => {
    expect(await ask(headers())).toEqual([false, status, 'close']);
  });
});

const mebibyte = 1024 * 1024;
const chunkOf = (bytes: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);

/** A connection whose request head has been sent, ready for the body. Nothing is read from it. */
async function sending([path, contentType]: readonly [string, string], framing: string, bearer = key): Promise<Socket> {
  const { port, hostname } = new URL(gateway.url);
  const socket = connect(Number(port), hostname).pause();
  socket.on('error', () => {});
  const head = `POST ${path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${bearer}\r\ncontent-type: ${contentType}\r\n${framing}\r\n\r\n`;
  await write(socket, head);
  return socket;
}

const write = (socket: Socket, bytes: string | Buffer): Promise<void> =>
  new Promise((resolve, reject) => socket.write(bytes, (error) => (error == null ? resolve() : reject(error))));
