import { once } from 'node:events';
import { connect } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import OpenAI from 'openai';
import { OpenAIRealtimeWebSocket } from 'openai/realtime/websocket';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { selfSignedCertificate } from '../support/certificate.ts';
import { ClockAhead } from '../support/clock-ahead.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import {
  append,
  openTalk,
  quiet,
  type RealtimeOptions,
  type RealtimeTalk,
  sessionUpdate,
  tone,
  UpgradeRefused,
} from '../support/realtime-client.ts';
import { startStopwatch } from '../support/stopwatch.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: InferenceBench;
/** The gateway's. */
const clock = new ClockAhead();
const open: RealtimeTalk[] = [];
beforeAll(async () => {
  bench = await startInferenceBench({ clock });
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.renew());
afterEach(() => {
  for (const { socket } of open.splice(0)) socket.terminate();
});

const model = 'sandbox-transcribe';
const talk = async (options: RealtimeOptions = {}) => {
  const session = await openTalk(bench.gateway.url, { key: bench.key.key, ...options });
  open.push(session);
  return session;
};
const refusal = async (options: RealtimeOptions): Promise<UpgradeRefused> => {
  const error = await openTalk(bench.gateway.url, options).then(
    (session) => {
      session.socket.terminate();
      return null;
    },
    (thrown) => thrown,
  );
  expect(error).toBeInstanceOf(UpgradeRefused);
  const refused = error as UpgradeRefused;
  expect(refused.headers.connection).toBe('close');
  expect(Number(refused.headers['content-length'])).toBeGreaterThan(0);
  expect(refused.headers['x-request-id']).toMatch(/^req_/);
  expect(Object.keys(refused.body.error).sort()).toEqual(['code', 'message', 'param', 'type']);
  return refused;
};
const update = async (fields: object) =>
  bench.gateway.call('PATCH', `/api/v1/api-keys/${bench.key.id}`, bench.session, fields);
async function admin(method: string, path: string, body?: unknown) {
  const answer = await bench.gateway.call(method, `/api/v1/admin${path}`, bench.session, body);
  if (answer.status >= 400) throw new Error(`${method} ${path} answered ${answer.status}: ${answer.text}`);
  return answer.json;
}
/** A model that was retired a moment ago. */
async function retiredModel(name: string): Promise<string> {
  await admin('POST', '/models', { name, operations: ['realtime_transcription'] });
  await admin('POST', '/retirements', {
    model: name,
    sunset_at: new Date(clock.now() + 60_000).toISOString(),
    replacement_model_name: model,
  });
  clock.aheadMs += 60_000;
  return name;
}

describe('the client, unmodified', () => {
  const listen = async (
    realtime: OpenAIRealtimeWS | OpenAIRealtimeWebSocket,
    opened: Promise<unknown>,
  ): Promise<string[]> => {
    const types: string[] = [];
    const done = new Promise<void>((resolve, reject) => {
      realtime.on('event', (event) => {
        types.push(event.type);
        if (event.type === 'conversation.item.input_audio_transcription.completed') {
          expect(event.usage).toBeDefined();
          resolve();
        }
      });
      realtime.on('error', reject);
    });
    await opened;
    // All at once, as soon as the socket stands.
    realtime.send(sessionUpdate(model) as never);
    for (const part of [quiet(500), tone(800), quiet(900)]) realtime.send(append(part) as never);
    await done;
    realtime.close();
    return types;
  };
  const order = [
    'session.created',
    'session.updated',
    'input_audio_buffer.speech_started',
    'input_audio_buffer.speech_stopped',
    'input_audio_buffer.committed',
    'conversation.item.added',
    'conversation.item.done',
    'conversation.item.input_audio_transcription.delta',
    'conversation.item.input_audio_transcription.completed',
  ];

  test('OpenAIRealtimeWS gets its events in order, with usage', async () => {
    const { hostname, port } = new URL(bench.gateway.url);
    const options = { createConnection: () => connect(Number(port), hostname) };
    const realtime = new OpenAIRealtimeWS({ intent: 'transcription', options: options as never }, bench.client);
    expect(await listen(realtime, once(realtime.socket, 'open'))).toEqual(order);
  });

  test('OpenAIRealtimeWebSocket does too, with its key among the subprotocols', async () => {
    const { hostname, port } = new URL(bench.gateway.url);
    const tls = createTlsServer(selfSignedCertificate(), (socket) => {
      const inner = connect(Number(port), hostname);
      socket.pipe(inner).pipe(socket);
      for (const end of [socket, inner]) end.on('error', () => {});
    });
    tls.listen(0, '127.0.0.1');
    await once(tls, 'listening');
    const before = getGlobalDispatcher();
    setGlobalDispatcher(new Agent({ connect: { rejectUnauthorized: false } }));
    try {
      const { port: tlsPort } = tls.address() as { port: number };
      const client = new OpenAI({ apiKey: bench.key.key, baseURL: `https://127.0.0.1:${tlsPort}/v1` });
      const realtime = new OpenAIRealtimeWebSocket({ intent: 'transcription', dangerouslyAllowBrowser: true }, client);
      const opened = new Promise((resolve) => realtime.socket.addEventListener('open', resolve));
      expect(await listen(realtime, opened)).toEqual(order);
      expect(realtime.socket.protocol).toBe('realtime');
    } finally {
      setGlobalDispatcher(before);
      tls.close();
    }
  });
});

describe('a refusal at the upgrade is a real HTTP response', () => {
  test('without a key, with a bad one, and with one in another place', async () => {
    const missing = await refusal({});
    expect([missing.status, missing.body.error.code]).toEqual([401, 'missing_api_key']);
    expect(missing.headers['www-authenticate']).toBe('Bearer');
    const bad = await refusal({ key: `${bench.key.key.slice(0, -1)}x` });
    expect([bad.status, bad.body.error.code]).toEqual([401, 'invalid_api_key']);
    expect(JSON.stringify(bad.body)).not.toContain(bench.key.key.slice(0, 20));
    expect((await refusal({ query: `?intent=transcription&api_key=${bench.key.key}` })).status).toBe(401);
    const two = ['realtime', `openai-insecure-api-key.${bench.key.key}`, 'openai-insecure-api-key.another'];
    expect((await refusal({ protocols: two })).status).toBe(401);
  });

  test('without the scope, from a foreign address, with a cap that is used up', async () => {
    const { key } = await bench.gateway.createKey(bench.session, { scopes: ['inference:chat'] });
    const scope = await refusal({ key });
    expect([scope.status, scope.body.error.code]).toEqual([403, 'missing_scope']);
    expect(scope.body.error.message).toContain('inference:audio');

    await update({ ip_allowlist: ['192.0.2.7'] });
    await waitFor(async () => (await refusal({ key: bench.key.key })).body.error.code === 'ip_not_allowed', {
      description: 'the address list in force',
    });
    await update({ ip_allowlist: null, spend_cap_usd: 0 });
    await waitFor(
      async () => {
        const cap = await refusal({ key: bench.key.key });
        return cap.status === 429 && cap.body.error.code === 'spend_cap_exceeded';
      },
      { description: 'the cap in force' },
    );
    // Sessions that were refused take no place.
    await admin('PUT', `/keys/${bench.key.id}/rate-limits`, { concurrent_requests: 1 });
    for (let session = 0; session < 3; session++) {
      expect((await refusal({ key: bench.key.key })).body.error.code).toBe('spend_cap_exceeded');
    }
  });

  test('for a model in the URL: unknown, not allowed, of another kind, retired', async () => {
    const { key } = bench.key;
    const unknown = await refusal({ key, query: '?intent=transcription&model=nothing' });
    expect([unknown.status, unknown.body.error.code, unknown.body.error.param]).toEqual([
      404,
      'model_not_found',
      'model',
    ]);
    expect((await refusal({ key, query: '?model=sandbox-chat' })).body.error.code).toBe('unsupported_model');

    const name = await retiredModel('retired-at-the-door');
    const retired = await refusal({ key, query: `?model=${name}` });
    expect([retired.status, retired.body.error.code]).toEqual([410, 'model_sunset']);
    expect(retired.headers.link).toContain('rel="deprecation"');
    expect(retired.headers.link).toContain(`${model}>; rel="successor-version"`);
    expect(retired.headers.sunset).toBeDefined();

    await update({ model_allowlist: ['sandbox-chat'] });
    await waitFor(
      async () => (await refusal({ key, query: `?model=${model}` })).body.error.code === 'model_not_allowed',
      {
        description: 'the model list in force',
      },
    );
  });

  test('for another intent', async () => {
    expect((await refusal({ key: bench.key.key, query: '?intent=chat' })).body.error.param).toBe('intent');
  });

  test('for more sessions at once than the key may have', async () => {
    await admin('PUT', `/keys/${bench.key.id}/rate-limits`, { concurrent_requests: 2 });
    await waitFor(
      async () => {
        const sessions = [await talk(), await talk()];
        const third = await openTalk(bench.gateway.url, { key: bench.key.key }).catch((thrown) => thrown);
        for (const { socket } of sessions) socket.terminate();
        if (third instanceof UpgradeRefused && third.status === 429) return true;
        third.socket?.terminate();
        return false;
      },
      { description: 'a refusal of the third session', intervalMs: 200 },
    );
    // Their places are free again.
    await waitFor(async () => (await talk()).event('session.created'), { description: 'a place for another' });
  });

  test('a plain GET is told to upgrade, and other methods what is allowed', async () => {
    const answer = await bench.gateway.call('GET', '/v1/realtime?intent=transcription', bench.key.key);
    expect([answer.status, answer.headers.get('upgrade')]).toEqual([426, 'websocket']);
    expect(answer.json.error.type).toBe('invalid_request_error');
    expect((await bench.gateway.call('POST', '/v1/realtime', bench.key.key, {})).status).toBe(405);
  });

  test('a request that asks to upgrade elsewhere is answered as if it had not', async () => {
    const answer = await fetch(`${bench.gateway.url}/v1/models`, {
      headers: { authorization: `Bearer ${bench.key.key}`, upgrade: 'h2c' },
    }).catch(() => null);
    // fetch forbids the header; a socket does not.
    expect(answer === null || answer.status === 200).toBe(true);
    const { hostname, port } = new URL(bench.gateway.url);
    const socket = connect(Number(port), hostname);
    socket.write(
      `GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${bench.key.key}\r\n` +
        'connection: upgrade, http2-settings, close\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n',
    );
    const [head] = (await once(socket, 'data')) as [Buffer];
    expect(head.toString()).toMatch(/^HTTP\/1\.1 200 /);
    socket.destroy();
  });
});

describe('a session that is under way', () => {
  test('ends when it names a model that is retired', async () => {
    const name = await retiredModel('retired-inside');
    const session = await talk();
    session.say(sessionUpdate(name));
    expect((await session.event('error')).error).toMatchObject({ code: 'model_sunset', type: 'invalid_request_error' });
    expect(await session.close()).toEqual({ code: 4000, reason: 'invalid_request_error.model_sunset' });
  });

  test('takes a model from its URL, and all that is said on open', async () => {
    const session = await talk({ query: `?intent=transcription&model=${model}` });
    for (const part of [tone(600), quiet(900)]) session.say(append(part));
    await session.event('conversation.item.input_audio_transcription.completed');
  });

  test('is closed within two seconds of the revocation of its key', async () => {
    const session = await talk();
    await session.event('session.created');
    using watch = startStopwatch();
    await bench.gateway.call('DELETE', `/api/v1/api-keys/${bench.key.id}`, bench.session);
    expect((await session.close()).code).toBe(1008);
    expect(watch.ms).toBeLessThan(2_000);
    expect(session.events.at(-1)).toMatchObject({ type: 'error', error: { code: 'invalid_api_key' } });
  });

  test('is closed within two seconds of the suspension of its organization, of a key and of a portal session', async () => {
    const sessions = [await talk(), await talk({ key: await bench.gateway.login() })];
    for (const session of sessions) await session.event('session.created');
    const { tenant_id } = (await bench.gateway.call('GET', '/api/v1/profile', bench.session)).json;
    using watch = startStopwatch();
    await admin('POST', `/organizations/${tenant_id}/suspend`, { reason: 'unpaid' });
    try {
      for (const session of sessions) {
        expect((await session.close()).code).toBe(1008);
        expect(watch.ms).toBeLessThan(2_000);
      }
      expect((await refusal({ key: bench.key.key })).body.error.code).toBe('tenant_suspended');
    } finally {
      await admin('POST', `/organizations/${tenant_id}/restore`);
    }
  });

  test('is closed when its key expires', async () => {
    const expires_at = new Date(clock.now() + 1_500).toISOString();
    const { key } = await bench.gateway.createKey(bench.session, { expires_at });
    const session = await talk({ key });
    expect((await session.close()).code).toBe(1008);
  });

  test('is closed when its key is rotated without a grace period, and stays open with one', async () => {
    const { id, key } = await bench.gateway.createKey(bench.session);
    const rotate = (seconds: number) =>
      bench.gateway.call('POST', `/api/v1/api-keys/${id}/rotate`, bench.session, { grace_period_seconds: seconds });
    const session = await talk({ key });
    await session.event('session.created');
    expect((await rotate(600)).status).toBe(200);
    session.say(sessionUpdate(model));
    await session.event('session.updated');
    using watch = startStopwatch();
    expect((await rotate(0)).status).toBe(200);
    expect((await session.close()).code).toBe(1008);
    expect(watch.ms).toBeLessThan(2_000);
  });

  test('is closed when its key expires earlier than it did when the session was opened', async () => {
    const { id, key } = await bench.gateway.createKey(bench.session);
    const session = await talk({ key });
    await session.event('session.created');
    const expires_at = new Date(clock.now() + 1_500).toISOString();
    await bench.gateway.call('PATCH', `/api/v1/api-keys/${id}`, bench.session, { expires_at });
    expect((await session.close()).code).toBe(1008);
    expect(clock.now()).toBeGreaterThanOrEqual(Date.parse(expires_at));
  });

  test('of a portal session ends with its sign-out', async () => {
    const token = await bench.gateway.login();
    const session = await talk({ key: token });
    await session.event('session.created');
    await bench.gateway.call('POST', '/api/v1/auth/logout', token);
    expect((await session.close()).code).toBe(1008);
  });

  test('is metered as its client leaves it: nothing delivered, nothing charged', async () => {
    const session = await talk({ query: `?model=${model}` });
    session.say(sessionUpdate(model, { turn_detection: null }));
    session.say(append(tone(500)));
    await session.event('session.updated');
    session.socket.terminate();
    await bench.event({ success: false, error_code: 'client_closed_request', audio_seconds: 0, cost_usd: 0 });
  });
});

describe('abuse', () => {
  test('a message that is too large ends with 1009', async () => {
    const session = await talk();
    session.socket.send(`"${'a'.repeat(21 * 1024 * 1024)}"`);
    expect((await session.close()).code).toBe(1009);
  });

  test('is no event with 15 MiB of audio: the session goes on', async () => {
    const session = await talk();
    session.say(append(Buffer.alloc(15 * 1024 * 1024)));
    session.say(sessionUpdate(model));
    await session.event('session.updated');
    session.say({ type: 'input_audio_buffer.clear' });
    await session.event('input_audio_buffer.cleared');
  });

  test('a binary message ends with 1008', async () => {
    const session = await talk();
    session.socket.send(Buffer.from([1, 2, 3]));
    expect((await session.close()).code).toBe(1008);
  });

  test('a message in ever more fragments ends with 1008', async () => {
    const session = await talk();
    for (let fragment = 0; fragment < 2_000; fragment++) session.socket.send('', { fin: false });
    expect((await session.close()).code).toBe(1008);
  });

  test('audio that is no base64 is an error, and the session goes on', async () => {
    const session = await talk({ query: `?model=${model}` });
    session.say({ type: 'input_audio_buffer.append', audio: '%%%%' });
    expect((await session.event('error')).error).toMatchObject({ code: 'invalid_value', param: 'audio' });
    session.say(sessionUpdate(model));
    await session.event('session.updated');
  });
});

describe('client secrets', () => {
  const secret = async (body: object = {}, key = bench.key.key) => {
    const answer = await bench.gateway.call('POST', '/v1/realtime/client_secrets', key, body);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    return answer.json as { value: string; expires_at: number; session: object };
  };

  test('are made by the unmodified client, bound to a session, and open it', async () => {
    const made = await bench.client.realtime.clientSecrets.create({
      expires_after: { anchor: 'created_at', seconds: 60 },
      session: {
        type: 'transcription',
        audio: { input: { transcription: { model: model as never }, turn_detection: null } },
      },
    } as never);
    expect(made.value).toMatch(/^ek_/);
    expect(made.expires_at).toBeGreaterThan(clock.now() / 1000 + 50);
    expect(made.session).toMatchObject({ type: 'transcription' });
    const session = await talk({
      key: undefined,
      headers: { origin: 'https://elsewhere.example' },
      protocols: ['realtime', `openai-insecure-api-key.${made.value}`],
    });
    expect(session.socket.protocol).toBe('realtime');
    const created = await session.event('session.created');
    expect(created.session.audio.input).toMatchObject({ transcription: { model }, turn_detection: null });
    session.say(append(tone(300)));
    session.say({ type: 'input_audio_buffer.commit' });
    await session.event('conversation.item.input_audio_transcription.completed');
    await bench.event({ endpoint: '/v1/realtime', success: true });
  });

  test('end after ten minutes when no time is asked for', async () => {
    const earliest = Math.floor(clock.now() / 1000) + 600;
    const made = await secret();
    expect(made.expires_at).toBeGreaterThanOrEqual(earliest);
    expect(made.expires_at).toBeLessThanOrEqual(Math.floor(clock.now() / 1000) + 600);
  });

  test('of a portal session work too', async () => {
    const { value } = await secret({}, bench.session);
    await (await talk({ key: value })).event('session.created');
  });

  test('die with their key', async () => {
    const { value } = await secret();
    await bench.gateway.call('DELETE', `/api/v1/api-keys/${bench.key.id}`, bench.session);
    expect((await refusal({ key: value })).body.error.code).toBe('invalid_api_key');
  });

  test('end with the secret of the key that made them: at once, or with its grace period', async () => {
    const { value } = await secret();
    const rotate = (grace_period_seconds: number) =>
      bench.gateway.call('POST', `/api/v1/api-keys/${bench.key.id}/rotate`, bench.session, { grace_period_seconds });
    await rotate(600);
    const session = await talk({ key: value });
    await session.event('session.created');
    await rotate(0);
    expect((await session.close()).code).toBe(1008);
    expect((await refusal({ key: value })).body.error.code).toBe('invalid_api_key');
  });

  test('are no keys for anything else', async () => {
    const { value } = await secret();
    expect((await bench.gateway.call('GET', '/v1/models', value)).status).toBe(401);
    expect((await bench.gateway.call('POST', '/v1/realtime/client_secrets', value, {})).status).toBe(401);
  });

  test('cannot be invented', async () => {
    expect((await refusal({ key: 'ek_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' })).status).toBe(401);
  });

  test.each([
    [{ expires_after: { seconds: 9 } }],
    [{ expires_after: { seconds: 7_201 } }],
    [{ session: { type: 'realtime' } }],
    [{ session: { type: 'transcription', prompt: 'x'.repeat(5_000) } }],
  ])('%j is refused', async (body) => {
    const answer = await bench.gateway.call('POST', '/v1/realtime/client_secrets', bench.key.key, body);
    expect(answer.status).toBe(400);
  });
});

test('a page of another origin may not use a key, only a client secret', async () => {
  const foreign = await refusal({ key: bench.key.key, headers: { origin: 'https://elsewhere.example' } });
  expect([foreign.status, foreign.body.error.code]).toEqual([403, 'origin_not_allowed']);
  await (await talk({ headers: { origin: bench.gateway.url } })).event('session.created');
});
