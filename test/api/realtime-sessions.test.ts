import { once } from 'node:events';
import { connect } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import OpenAI from 'openai';
import { OpenAIRealtimeWebSocket } from 'openai/realtime/websocket';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { selfSignedCertificate } from '../support/certificate.ts';
import { ClockAhead } from '../support/clock-ahead.ts';
import { type InferenceBench, retiredModel, startInferenceBench } from '../support/inference.ts';
import {
  append,
  quiet,
  type RealtimeOptions,
  sessionUpdate,
  talksOfTests,
  tone,
  upgradeRefusal,
  utteranceEvents,
} from '../support/realtime-client.ts';
import { startStopwatch } from '../support/stopwatch.ts';

let bench: InferenceBench;
/** The gateway's clock. */
const clock = new ClockAhead();
beforeAll(async () => {
  bench = await startInferenceBench({ clock });
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.renew());

const model = 'sandbox-transcribe';
const open = talksOfTests();
const talk = (options: RealtimeOptions = {}) => open(bench.gateway.url, { key: bench.key.key, ...options });

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
    // All at once, as soon as the socket is open.
    realtime.send(sessionUpdate(model) as never);
    for (const part of [quiet(500), tone(800), quiet(900)]) realtime.send(append(part) as never);
    await done;
    realtime.close();
    return types;
  };

  test('OpenAIRealtimeWS gets its events in order, with usage', async () => {
    const { hostname, port } = new URL(bench.gateway.url);
    const options = { createConnection: () => connect(Number(port), hostname) };
    const realtime = new OpenAIRealtimeWS({ intent: 'transcription', options: options as never }, bench.client);
    expect(await listen(realtime, once(realtime.socket, 'open'))).toEqual(utteranceEvents);
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
      expect(await listen(realtime, opened)).toEqual(utteranceEvents);
      expect(realtime.socket.protocol).toBe('realtime');
    } finally {
      setGlobalDispatcher(before);
      tls.close();
    }
  });
});

describe('a running session', () => {
  test('ends when it names a retired model', async () => {
    const name = await retiredModel(bench, clock, 'retired-inside');
    const session = await talk();
    session.say(sessionUpdate(name));
    expect((await session.event('error')).error).toMatchObject({ code: 'model_sunset', type: 'invalid_request_error' });
    expect(await session.close()).toEqual({ code: 4000, reason: 'invalid_request_error.model_sunset' });
  });

  test('takes a model from its URL, and everything said as soon as it opens', async () => {
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

  test('is closed and told why within two seconds of the suspension of its organization, whether opened by a key or a portal session', async () => {
    const sessions = [await talk(), await talk({ key: await bench.gateway.login() })];
    for (const session of sessions) await session.event('session.created');
    const { tenant_id } = (await bench.gateway.call('GET', '/api/v1/profile', bench.session)).json;
    using watch = startStopwatch();
    await bench.admin('POST', `/organizations/${tenant_id}/suspend`, { reason: 'unpaid' });
    try {
      for (const session of sessions) {
        expect(await session.close()).toEqual({ code: 1008, reason: 'permission_error.tenant_suspended' });
        expect(watch.ms).toBeLessThan(2_000);
        expect(session.events.at(-1)).toMatchObject({ type: 'error', error: { code: 'tenant_suspended' } });
      }
      expect((await upgradeRefusal(bench.gateway.url, { key: bench.key.key })).body.error.code).toBe(
        'tenant_suspended',
      );
    } finally {
      await bench.admin('POST', `/organizations/${tenant_id}/restore`);
    }
  });

  test('is closed and told why when its key expires', async () => {
    const expires_at = new Date(clock.now() + 1_500).toISOString();
    const { key } = await bench.gateway.createKey(bench.session, { expires_at });
    const session = await talk({ key });
    expect(await session.close()).toEqual({ code: 1008, reason: 'invalid_request_error.expired_api_key' });
  });

  test('stays open if the expiry of its key was postponed in the meantime', async () => {
    const expires_at = new Date(clock.now() + 2_500).toISOString();
    const keys = [0, 1].map(() => bench.gateway.createKey(bench.session, { expires_at }));
    const [putOff, left] = await Promise.all(keys);
    const session = await talk({ key: putOff!.key });
    const other = await talk({ key: left!.key });
    await bench.gateway.call('PATCH', `/api/v1/api-keys/${putOff!.id}`, bench.session, { expires_at: null });
    await other.close();
    session.say(sessionUpdate(model));
    await session.event('session.updated');
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

  test('is closed when the expiry of its key was brought forward', async () => {
    const { id, key } = await bench.gateway.createKey(bench.session);
    const session = await talk({ key });
    await session.event('session.created');
    const expires_at = new Date(clock.now() + 1_500).toISOString();
    await bench.gateway.call('PATCH', `/api/v1/api-keys/${id}`, bench.session, { expires_at });
    expect(await session.close()).toEqual({ code: 1008, reason: 'invalid_request_error.expired_api_key' });
    expect(clock.now()).toBeGreaterThanOrEqual(Date.parse(expires_at));
  });

  test('follows the current cap and allowlist of its key', async () => {
    const manual = { turn_detection: null };
    const session = await talk();
    session.say(sessionUpdate(model, manual));
    await session.event('session.updated');
    const change = (fields: object) =>
      bench.gateway.call('PATCH', `/api/v1/api-keys/${bench.key.id}`, bench.session, fields);
    expect((await change({ spend_cap_usd: 0 })).status).toBe(200);
    session.say(append(tone(1_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    expect(await session.close()).toEqual({ code: 4000, reason: 'insufficient_quota.spend_cap_exceeded' });

    await change({ spend_cap_usd: null });
    const other = await talk();
    other.say(sessionUpdate(model, manual));
    await other.event('session.updated');
    expect((await change({ model_allowlist: [model] })).status).toBe(200);
    other.say(sessionUpdate('sandbox-transcribe-mini', manual));
    expect(await other.close()).toEqual({ code: 4000, reason: 'permission_error.model_not_allowed' });
  });

  test('ends when its key loses the model, the scope or the address', async () => {
    const change = (fields: object) =>
      bench.gateway.call('PATCH', `/api/v1/api-keys/${bench.key.id}`, bench.session, fields);
    for (const [taken, given, code, reason] of [
      [{ model_allowlist: ['sandbox-chat'] }, { model_allowlist: null }, 4000, 'permission_error.model_not_allowed'],
      [{ scopes: ['inference:chat'] }, { scopes: ['inference:audio'] }, 1008, 'permission_error.missing_scope'],
      [{ ip_allowlist: ['192.0.2.1'] }, { ip_allowlist: null }, 1008, 'permission_error.ip_not_allowed'],
    ] as const) {
      const session = await talk();
      session.say(sessionUpdate(model, { turn_detection: null }));
      await session.event('session.updated');
      expect((await change(taken)).status).toBe(200);
      expect(await session.close()).toEqual({ code, reason });
      expect((await change(given)).status).toBe(200);
    }
  });

  test('opened by a portal session ends when that signs out', async () => {
    const token = await bench.gateway.login();
    const session = await talk({ key: token });
    await session.event('session.created');
    await bench.gateway.call('POST', '/api/v1/auth/logout', token);
    expect(await session.close()).toEqual({ code: 1008, reason: 'invalid_request_error.invalid_token' });
  });

  test('is metered as it stands when its client leaves: nothing delivered, nothing charged', async () => {
    const session = await talk({ query: `?model=${model}` });
    session.say(sessionUpdate(model, { turn_detection: null }));
    session.say(append(tone(500)));
    await session.event('session.updated');
    session.socket.terminate();
    await bench.event({ success: false, error_code: 'client_closed_request', audio_seconds: 0, cost_usd: 0 });
  });
});

describe('abuse', () => {
  test('a message that is too large ends with 1009, even for a client that reads nothing before it has sent all of it', async () => {
    const session = await talk();
    session.socket.pause();
    const failure = await new Promise((sent) => session.socket.send(`"${'a'.repeat(21 * 1024 * 1024)}"`, {}, sent));
    expect(failure ?? null, 'the connection was reset').toBeNull();
    session.socket.resume();
    expect((await session.close()).code).toBe(1009);
  });

  test('does not include an event with 15 MiB of audio: the session continues', async () => {
    const session = await talk();
    session.say(append(Buffer.alloc(15 * 1024 * 1024)));
    session.say(sessionUpdate(model));
    await session.event('session.updated');
    session.say({ type: 'input_audio_buffer.clear' });
    await session.event('input_audio_buffer.cleared');
  });

  test.each([
    ['millions of arrays', `{"type":"x","a":[${'[],'.repeat(7_000_000)}0]}`],
    ['arrays in place of audio', `{"type":"input_audio_buffer.append","audio":[${'[],'.repeat(50_000)}0]}`],
    ['arrays deep in each other', `{"type":"x","a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`],
    ['members without end', `{"type":"x",${'"":0,'.repeat(50_000)}"a":0}`],
    [
      'configuration to keep and to repeat',
      JSON.stringify(sessionUpdate(model, { noise_reduction: 'x'.repeat(65_536) })),
    ],
  ])('an event with %s is refused unparsed, and the session continues', async (_what, event) => {
    const session = await talk();
    session.socket.send(event);
    expect((await session.event('error')).error).toMatchObject({ code: 'request_too_large', param: null });
    session.say(sessionUpdate(model));
    await session.event('session.updated');
  });

  test.each(['null', '5', '"session.update"', '[{}]', 'true', '{'])(
    '%s is no event, which an error says: the session goes on',
    async (said) => {
      await using session = await talk();
      session.socket.send(said);
      expect((await session.event('error')).error).toMatchObject({
        type: 'invalid_request_error',
        code: 'invalid_event',
        event_id: null,
      });
      session.say(sessionUpdate('sandbox-transcribe'));
      await session.event('session.updated');
      expect(session.closed).toBeNull();
    },
  );

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

  test.each([
    ['not at all', '%%%%'],
    ['but for a character', 'AAAAAAAA*AAAAAAA'],
    ['except for what follows its end', 'AA==AAAA'],
  ])('invalid base64 audio, %s, is an error, and the session continues without it', async (_what, audio) => {
    const session = await talk({ query: `?model=${model}` });
    session.say(sessionUpdate(null, { turn_detection: null }));
    session.say({ type: 'input_audio_buffer.append', audio });
    expect((await session.event('error')).error).toMatchObject({ code: 'invalid_value', param: 'audio' });
    session.say(append(tone(1_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    const done = await session.event('conversation.item.input_audio_transcription.completed');
    expect(done.usage).toEqual({ type: 'duration', seconds: 1 });
  });
});
