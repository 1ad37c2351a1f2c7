import { decodeJwt } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ClockAhead } from '../support/clock-ahead.ts';
import { type InferenceBench, retiredModel, startInferenceBench } from '../support/inference.ts';
import { rawRequest } from '../support/raw-request.ts';
import {
  append,
  openTalk,
  type RealtimeOptions,
  talksOfTests,
  tone,
  UpgradeRefused,
  upgradeRefusal,
} from '../support/realtime-client.ts';
import { waitFor } from '../support/wait-for.ts';

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
const refusal = (options: RealtimeOptions) => upgradeRefusal(bench.gateway.url, options);
const update = async (fields: object) =>
  bench.gateway.call('PATCH', `/api/v1/api-keys/${bench.key.id}`, bench.session, fields);

test('the subprotocol that carries a key opens a session, and is never the one chosen', async () => {
  const carrier = `openai-insecure-api-key.${bench.key.key}`;
  const options = { key: undefined, protocols: [carrier, 'realtime'] };
  expect((await talk(options)).socket.protocol).toBe('realtime');
  // The client gives up, since nothing that it offered was chosen.
  await expect(talk({ ...options, protocols: [carrier] })).rejects.toThrow('Server sent no subprotocol');
});

describe('a refusal at the upgrade is a real HTTP response', () => {
  test('without a key, with an invalid one, or with one in the wrong place', async () => {
    const missing = await refusal({});
    expect([missing.status, missing.body.error.code]).toEqual([401, 'missing_api_key']);
    expect(missing.headers['www-authenticate']).toBe('Bearer');
    const last = bench.key.key.endsWith('x') ? 'y' : 'x';
    const bad = await refusal({ key: bench.key.key.slice(0, -1) + last });
    expect([bad.status, bad.body.error.code]).toEqual([401, 'invalid_api_key']);
    expect(JSON.stringify(bad.body)).not.toContain(bench.key.key.slice(0, 20));
    expect((await refusal({ query: `?intent=transcription&api_key=${bench.key.key}` })).status).toBe(401);
    const two = ['realtime', `openai-insecure-api-key.${bench.key.key}`, 'openai-insecure-api-key.another'];
    expect((await refusal({ protocols: two })).status).toBe(401);
  });

  test('without the scope, from a disallowed address, or with an exhausted cap', async () => {
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
    // Refused sessions occupy no place.
    await bench.admin('PUT', `/keys/${bench.key.id}/rate-limits`, { concurrent_requests: 1 });
    for (let session = 0; session < 3; session++) {
      expect((await refusal({ key: bench.key.key })).body.error.code).toBe('spend_cap_exceeded');
    }
  });

  test('for a model in the URL that is unknown, not allowed, of another kind or retired', async () => {
    const { key } = bench.key;
    const unknown = await refusal({ key, query: '?intent=transcription&model=nothing' });
    expect([unknown.status, unknown.body.error.code, unknown.body.error.param]).toEqual([
      404,
      'model_not_found',
      'model',
    ]);
    expect((await refusal({ key, query: '?model=sandbox-chat' })).body.error.code).toBe('unsupported_model');

    const name = await retiredModel(bench, clock, 'retired-at-the-door');
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

  test('but once admitted, a session in which nobody speaks holds no room in the cap of its key', async () => {
    await bench.gateway.call('PATCH', `/api/v1/api-keys/${bench.key.id}`, bench.session, { spend_cap_usd: 5 });
    const leases = async () =>
      Number(/^gateway_budget_leases (\d+)$/m.exec((await bench.gateway.call('GET', '/metrics')).text)![1]);
    await waitFor(
      async () => {
        (await talk()).socket.terminate();
        return (await leases()) > 0;
      },
      { description: 'a lease' },
    );
    await waitFor(async () => (await leases()) === 0, { description: 'its return' });
  });

  test('for another intent', async () => {
    expect((await refusal({ key: bench.key.key, query: '?intent=chat' })).body.error.param).toBe('intent');
  });

  test('for more simultaneous sessions than the key may have', async () => {
    await bench.admin('PUT', `/keys/${bench.key.id}/rate-limits`, { concurrent_requests: 2 });
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

  test('a plain GET is told to upgrade, and other methods which ones are allowed', async () => {
    const answer = await bench.gateway.call('GET', '/v1/realtime?intent=transcription', bench.key.key);
    expect([answer.status, answer.headers.get('upgrade')]).toEqual([426, 'websocket']);
    expect(answer.json.error.type).toBe('invalid_request_error');
    expect((await bench.gateway.call('POST', '/v1/realtime', bench.key.key, {})).status).toBe(405);
  });

  test('an upgrade request to any other address is answered as if it had not asked for one', async () => {
    // fetch forbids the header, so this uses a socket.
    const answer = await rawRequest(
      bench.gateway.url,
      `GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${bench.key.key}\r\n` +
        'connection: upgrade, http2-settings, close\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  });

  test.each(['POST', 'DELETE', 'OPTIONS'])('so is one by %s, and its connection closes', async (method) => {
    const answer = await rawRequest(
      bench.gateway.url,
      `${method} /v1/realtime HTTP/1.1\r\nhost: x\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n\r\n`,
    );
    expect(answer).toMatch(method === 'OPTIONS' ? /^HTTP\/1\.1 200 / : /^HTTP\/1\.1 405 /);
  });
});

test('a page of another origin may not use a key, only a client secret', async () => {
  const foreign = await refusal({
    key: bench.key.key,
    headers: { origin: 'https://elsewhere.example' },
  });
  expect([foreign.status, foreign.body.error.code]).toEqual([403, 'origin_not_allowed']);
  await (await talk({ headers: { origin: bench.gateway.url } })).event('session.created');
});

describe('client secrets', () => {
  const secret = async (body: object = {}, key = bench.key.key) => {
    const answer = await bench.gateway.call('POST', '/v1/realtime/client_secrets', key, body);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    return answer.json as { value: string; expires_at: number; session: object };
  };

  test('are created by the unmodified client, bound to a session, and open it', async () => {
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

  test('come with a session that has an id, which typed clients require, and nothing else in its place', async () => {
    const kind = { object: 'realtime.transcription_session', type: 'transcription' };
    for (const session of [undefined, {}, { id: 7, object: 'mine' }]) {
      const made = await secret({ session });
      expect(made.session).toEqual({ id: expect.stringMatching(/^sess_/), ...kind });
    }
  });

  test('open sessions for ten minutes by default, and none after that', async () => {
    const earliest = Math.floor(clock.now() / 1000) + 600;
    const made = await secret();
    expect(made.expires_at).toBeGreaterThanOrEqual(earliest);
    expect(made.expires_at).toBeLessThanOrEqual(Math.floor(clock.now() / 1000) + 600);
    clock.aheadMs += 600_000;
    const expired = await refusal({ key: made.value });
    expect([expired.status, expired.body.error.code]).toEqual([401, 'expired_token']);
  });

  test('do not claim to last longer than the key or session that created them', async () => {
    const expires_at = new Date(clock.now() + 60_000).toISOString();
    const { key } = await bench.gateway.createKey(bench.session, { expires_at });
    expect((await secret({}, key)).expires_at).toBe(Math.floor(Date.parse(expires_at) / 1000));
    const token = await bench.gateway.login();
    expect((await secret({ expires_after: { seconds: 7_200 } }, token)).expires_at).toBe(decodeJwt(token).exp);
  });

  test('created by a portal session work too', async () => {
    const { value } = await secret({}, bench.session);
    await (await talk({ key: value })).event('session.created');
  });

  test('bound to a model are refused once it has retired, when they are made or used, just like its name in the URL', async () => {
    const name = 'sandbox-transcribe-mini';
    const sunset_at = new Date(clock.now() + 60_000).toISOString();
    await bench.admin('POST', '/retirements', { model: name, sunset_at, replacement_model_name: model });
    const bodies = [
      { audio: { input: { transcription: { model: name } } } },
      { input_audio_transcription: { model: name } },
    ].map((session) => ({ session: { type: 'transcription', ...session } }));
    const made = await Promise.all(bodies.map((body) => secret(body)));
    clock.aheadMs += 60_000;
    for (const [index, { value }] of made.entries()) {
      const used = await refusal({ key: value });
      const again = await bench.gateway.call('POST', '/v1/realtime/client_secrets', bench.key.key, bodies[index]);
      for (const [status, body, link] of [
        [used.status, used.body, used.headers.link],
        [again.status, again.json, again.headers.get('link')],
      ] as const) {
        expect([status, body.error.code]).toEqual([410, 'model_sunset']);
        expect(link).toContain(`${model}>; rel="successor-version"`);
      }
      expect(used.headers.sunset).toBeDefined();
    }
  });

  test('take no place among the simultaneous sessions of their key, and tell its limits when there is none', async () => {
    await bench.admin('PUT', `/keys/${bench.key.id}/rate-limits`, { concurrent_requests: 1 });
    const running = await talk();
    const make = () => bench.gateway.call('POST', '/v1/realtime/client_secrets', bench.key.key, {});
    const refused = await waitFor(
      async () => {
        const answer = await make();
        return answer.status === 429 && answer;
      },
      { description: 'the limit in force' },
    );
    const { headers } = await refusal({ key: bench.key.key });
    for (const standing of [refused.headers.get('x-ratelimit-limit-requests'), headers['x-ratelimit-limit-requests']])
      expect(Number(standing)).toBeGreaterThan(0);
    running.socket.terminate();
    await waitFor(async () => (await make()).status === 200, { description: 'a free place' });
    for (let count = 0; count < 3; count++) expect((await make()).status).toBe(200);
    await (await talk({ key: (await secret()).value })).event('session.created');
  });

  test('die with their key', async () => {
    const { value } = await secret();
    await bench.gateway.call('DELETE', `/api/v1/api-keys/${bench.key.id}`, bench.session);
    expect((await refusal({ key: value })).body.error.code).toBe('invalid_api_key');
  });

  test('end with the key secret that created them: at once, or with its grace period', async () => {
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

  test('cannot be forged', async () => {
    expect((await refusal({ key: 'ek_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' })).status).toBe(401);
  });

  test.each([
    [{ expires_after: { seconds: 9 } }, 400],
    [{ expires_after: { seconds: 7_201 } }, 400],
    [{ session: { type: 'realtime' } }, 400],
    [{ session: { type: 'transcription', prompt: 'x'.repeat(5_000) } }, 400],
    [{ session: { audio: { input: { transcription: { model: 'sandbox-chat' } } } } }, 400],
    [{ session: { audio: { input: { transcription: { model: 'no-such-model' } } } } }, 404],
  ])('are not created from %j', async (body, status) => {
    const answer = await bench.gateway.call('POST', '/v1/realtime/client_secrets', bench.key.key, body);
    expect(answer.status).toBe(status);
  });
});
