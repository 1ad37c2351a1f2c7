import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { parseItem } from 'structured-headers';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ManualClock } from '#shared/clock.ts';
import { startGateway } from '../../services/cmd/gateway.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { type Answer, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { silentLogger } from '../support/keys.ts';
import { startUpstreamSimulator } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';
import { wavOf } from '../support/wav.ts';

const dayMs = 86_400_000;
const startMs = Math.floor(Date.now() / dayMs) * dayMs + dayMs / 2;
const sunsetMs = startMs + 10 * dayMs;
const iso = (ms: number): string => new Date(ms).toISOString();

let gateway: TestGateway;
let clock: ManualClock;
let operator: string;
let key: string;

beforeAll(async () => {
  clock = new ManualClock(startMs);
  gateway = await startTestGateway({ clock });
  operator = await gateway.login();
  key = (await gateway.createKey(operator)).key;
});
afterAll(async () => gateway?.[Symbol.asyncDispose]());
// Rate limits refill by the monotonic clock, which stands still as well; the wall clock stays where it is.
beforeEach(() => {
  const before = clock.now();
  clock.advance(60_000);
  clock.set(before);
});

const admin = (method: string, path: string, body?: unknown) =>
  gateway.call(method, `/api/v1/admin${path}`, operator, body);

const form = (model: string, stream: boolean): FormData => {
  const data = new FormData();
  data.append('file', new Blob([wavOf(1)], { type: 'audio/wav' }), 'a.wav');
  data.append('model', model);
  if (stream) data.append('stream', 'true');
  return data;
};

type Surface = {
  operation: string;
  upstream: string;
  streams: boolean;
  send(model: string, stream: boolean): RequestInit & { path: string; method: string };
};
const json =
  (path: string, fields: object): Surface['send'] =>
  (model, stream) => ({
    path,
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, ...fields, ...(stream && { stream: true }) }),
  });

/** service.md, Model retirement surfaces: all of them. */
const surfaces: Readonly<Record<string, Surface>> = {
  'chat completions': {
    operation: 'chat_completions',
    upstream: 'sandbox-chat',
    streams: true,
    send: json('/chat/completions', { messages: [{ role: 'user', content: 'Hi' }] }),
  },
  completions: {
    operation: 'completions',
    upstream: 'sandbox-chat',
    streams: true,
    send: json('/completions', { prompt: 'Hi' }),
  },
  embeddings: {
    operation: 'embeddings',
    upstream: 'sandbox-embed',
    streams: false,
    send: json('/embeddings', { input: 'Hi' }),
  },
  'image generations': {
    operation: 'images_generations',
    upstream: 'sandbox-image',
    streams: true,
    send: json('/images/generations', { prompt: 'A cat', size: '256x256' }),
  },
  'audio speech': {
    operation: 'audio_speech',
    upstream: 'sandbox-speech',
    streams: false,
    send: json('/audio/speech', { input: 'Hi', voice: 'alloy', response_format: 'wav' }),
  },
  'audio transcriptions': {
    operation: 'audio_transcriptions',
    upstream: 'sandbox-transcribe',
    streams: true,
    send: (model, stream) => ({ path: '/audio/transcriptions', method: 'POST', body: form(model, stream) }),
  },
  'audio translations': {
    operation: 'audio_translations',
    upstream: 'sandbox-transcribe',
    streams: false,
    send: (model) => ({ path: '/audio/translations', method: 'POST', body: form(model, false) }),
  },
  'GET model by id': {
    operation: 'chat_completions',
    upstream: 'sandbox-chat',
    streams: false,
    send: (model) => ({ path: `/models/${encodeURIComponent(model)}`, method: 'GET' }),
  },
};

async function request(
  surface: Surface,
  model: string,
  options: { stream?: boolean; prefix?: string; key?: string } = {},
) {
  const { path, headers, ...init } = surface.send(model, options.stream ?? false);
  const response = await fetch(gateway.url + (options.prefix ?? '/v1') + path, {
    ...init,
    headers: { ...headers, authorization: `Bearer ${options.key ?? key}` },
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text };
}

let made = 0;
/** A model of its own, which a sandbox deployment serves, known to the edge. */
async function createModel(
  fields: { operations?: string[]; upstream?: string; visibility?: string; name?: string } = {},
) {
  made += 1;
  const name = fields.name ?? `acme/retiring-${made}:v1`;
  const { operations = ['chat_completions'], upstream = 'sandbox-chat', visibility = 'public' } = fields;
  const model = await admin('POST', '/models', { name, operations, visibility });
  expect(model.status, model.text).toBe(201);
  const deployment = await admin('POST', '/deployments', { model: name, dialect: 'sandbox', upstream_model: upstream });
  expect(deployment.status, deployment.text).toBe(201);
  return name;
}

const announce = (model: string, fields: Record<string, unknown> = {}): Promise<Answer> =>
  admin('POST', '/retirements', {
    model,
    ...(fields.retirement_note === undefined && { replacement_model_name: 'sandbox-chat' }),
    ...fields,
  });
async function announced(model: string, fields: Record<string, unknown> = {}): Promise<void> {
  const answer = await announce(model, fields);
  expect(answer.status, answer.text).toBe(201);
  await edgeKnows(model, (headers) => headers.has('deprecation'));
}
/** The edge hears of changes within a second; what it knows it shows on the errors of a request that costs nothing. */
const edgeKnows = (model: string, condition: (headers: Headers) => boolean) =>
  waitFor(async () => condition((await request(surfaces['chat completions']!, model)).headers), {
    description: `the edge to know of ${model}`,
    timeoutMs: 1_000,
    intervalMs: 20,
  });

/** RFC 8288 section 3: links of one header, by their relation. */
function linksOf(headers: Headers): Record<string, string> {
  const header = headers.get('link') ?? '';
  const links = [...header.matchAll(/<([^<>\s"]*)>((?:\s*;\s*[a-z-]+="[^"<>]*")+)(?:\s*,\s*|$)/g)];
  // Nothing stands between or behind the links.
  expect(links.map(([whole]) => whole).join('')).toBe(header);
  return Object.fromEntries(links.map(([, url, parameters]) => [/rel="([^"]*)"/.exec(parameters!)![1], url]));
}
const pageOf = (model: string) => `http://gateway.test/retirements/${encodeURIComponent(model)}`;
const recordOf = (model: string) => `http://gateway.test/v1/models/${encodeURIComponent(model)}`;

/** RFC 9745 section 2: an Item which is a Date, in whole seconds. */
function deprecationOf(headers: Headers): number {
  const [date, parameters] = parseItem(headers.get('deprecation')!);
  expect(parameters.size).toBe(0);
  expect(date).toBeInstanceOf(Date);
  return (date as Date).getTime();
}

/** Runs at another moment. */
async function at<Value>(ms: number, work: () => Promise<Value>): Promise<Value> {
  const before = clock.now();
  clock.set(ms);
  try {
    return await work();
  } finally {
    clock.set(before);
  }
}

const cases = Object.entries(surfaces).flatMap(([name, surface]) =>
  (surface.streams ? [false, true] : [false]).flatMap((stream) =>
    (['announced', 'dated', 'retired'] as const).map((state) => ({ name, surface, stream, state })),
  ),
);

describe('every surface announces a retirement in its headers', () => {
  test.each(cases)('$name, stream: $stream, $state', async ({ name, surface, stream, state }) => {
    const model = await createModel({ operations: [surface.operation], upstream: surface.upstream });
    const unannounced = await waitFor(
      async () => {
        const answer = await request(surface, model, { stream });
        return answer.status === 200 && answer;
      },
      { description: `${name} to serve`, timeoutMs: 2_000, intervalMs: 20 },
    );
    for (const header of ['deprecation', 'sunset', 'link']) expect(unannounced.headers.has(header)).toBe(false);

    await announced(model, state === 'announced' ? {} : { sunset_at: iso(sunsetMs) });
    const answer = await at(state === 'retired' ? sunsetMs : sunsetMs - 1, () => request(surface, model, { stream }));
    expect(deprecationOf(answer.headers)).toBe(Math.floor(startMs / 1000) * 1000);
    expect(linksOf(answer.headers)).toEqual({
      deprecation: pageOf(model),
      'successor-version': recordOf('sandbox-chat'),
    });
    if (state === 'announced') expect(answer.headers.has('sunset')).toBe(false);
    else {
      // RFC 9110 section 5.6.7: an IMF-fixdate.
      expect(answer.headers.get('sunset')).toMatch(/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/);
      expect(Date.parse(answer.headers.get('sunset')!)).toBe(sunsetMs);
    }
    if (state === 'retired') {
      expect(answer.status).toBe(410);
      expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
      expect(answer.headers.get('x-should-retry')).toBe('false');
      const { error } = JSON.parse(answer.text);
      expect(error).toMatchObject({ type: 'invalid_request_error', param: 'model', code: 'model_sunset' });
      expect(error.message).toContain(iso(sunsetMs).slice(0, 10));
      expect(error.message).toContain('sandbox-chat');
    } else {
      expect(answer.status).toBe(200);
      if (name !== 'GET model by id') expect(withoutIds(answer.text)).toBe(withoutIds(unannounced.text));
    }
  });
});

/** What differs between two answers of the same words: ids and moments. */
const withoutIds = (text: string): string =>
  text.replace(/"(id|created|created_at)":("[^"]*"|\d+)/g, '"$1":0').replace(/resp_\w+|chatcmpl-\w+|cmpl-\w+/g, '');

describe('while it is announced', () => {
  test('the model stays in the listing with its retirement as fields', async () => {
    const model = await createModel();
    await announced(model, { sunset_at: iso(sunsetMs) });
    const find = async (prefix: string) =>
      (await gateway.call('GET', `${prefix}/models`, key)).json.data.find(({ id }: { id: string }) => id === model);
    for (const prefix of ['/v1', '/api/v1']) {
      expect(await find(prefix)).toMatchObject({
        deprecated_at: iso(startMs),
        sunset_at: iso(sunsetMs),
        shutdown_date: iso(sunsetMs).slice(0, 10),
        replacement_model_name: 'sandbox-chat',
        retirement_note: null,
        is_serviceable: true,
      });
    }
    expect(await at(sunsetMs - 1, () => find('/v1'))).toBeDefined();
    expect(await at(sunsetMs, () => find('/v1'))).toBeUndefined();
  });

  test('nothing else changes for its users: neither its price nor their limits', async () => {
    const model = 'acme/priced';
    await admin('POST', '/models', { name: model, operations: ['chat_completions'] });
    await admin('POST', '/prices', { model, per_request_usd: 0.5, output_per_million_tokens_usd: 2 });
    await admin('POST', '/deployments', { model, dialect: 'sandbox', upstream_model: 'sandbox-chat' });
    const chat = surfaces['chat completions']!;
    // Changes arrive in their order: where the deployment is known, the price is.
    await waitFor(async () => (await request(chat, model)).status === 200, { description: 'the model to serve' });
    const bearers = await Promise.all([1, 2, 3].map(async () => (await gateway.createKey(operator)).key));
    const use = async (index: number) => {
      const { status, headers } = await request(chat, model, { key: bearers[index]! });
      expect(status).toBe(200);
      return {
        requestId: headers.get('x-request-id'),
        limits: [...headers].filter(([name]) => name.startsWith('x-ratelimit-')),
      };
    };
    const before = await use(0);
    await announced(model, { sunset_at: iso(sunsetMs) });
    const announcedUse = await use(1);
    const lastUse = await at(sunsetMs - 1, () => use(2));
    expect(before.limits.length).toBeGreaterThan(0);
    expect([announcedUse.limits, lastUse.limits]).toEqual([before.limits, before.limits]);

    const costs = await waitFor(
      () =>
        at(sunsetMs, async () => {
          const session = await gateway.login();
          const { json } = await gateway.call('GET', '/api/v1/usage/history?limit=500', session);
          const found = [before, announcedUse, lastUse].map(({ requestId }) =>
            json.data.find(({ request_id }: { request_id: string }) => request_id === requestId),
          );
          return found.every(Boolean) && found.map(({ cost_usd }) => cost_usd);
        }),
      { description: 'the uses in the history' },
    );
    expect(costs[0]).toBeGreaterThan(0.5);
    expect(costs).toEqual([costs[0], costs[0], costs[0]]);
  });

  test('refusals announce it too', async () => {
    const model = await createModel();
    await announced(model);
    const chat = surfaces['chat completions']!;
    const listing = (await gateway.createKey(operator, { scopes: ['models:list'] })).key;
    const elsewhere = (await gateway.createKey(operator, { model_allowlist: ['sandbox-chat'] })).key;
    for (const [refused, status] of [
      [listing, 403],
      [elsewhere, 403],
    ] as const) {
      const answer = await request(chat, model, { key: refused });
      expect(answer.status).toBe(status);
      expect(linksOf(answer.headers).deprecation).toBe(pageOf(model));
    }
    const invalid = await request({ ...chat, send: json('/chat/completions', { messages: 'none' }) }, model);
    expect(invalid.status).toBe(400);
    expect(invalid.headers.has('deprecation')).toBe(true);
    const wrong = await request(surfaces.embeddings!, model);
    expect(wrong.status).toBe(400);
    expect(wrong.headers.has('deprecation')).toBe(true);
    const forbidden = await request(surfaces['GET model by id']!, model, { key: listing });
    expect(forbidden.status).toBe(403);
    expect(forbidden.headers.has('deprecation')).toBe(true);
  });

  test('a note stands for the successor, and then no successor is linked', async () => {
    const model = await createModel();
    await announced(model, {
      sunset_at: iso(sunsetMs),
      retirement_note: 'Demand was too low; there is no replacement.',
    });
    const answer = await at(sunsetMs, () => request(surfaces['chat completions']!, model));
    expect(linksOf(answer.headers)).toEqual({ deprecation: pageOf(model) });
    expect(JSON.parse(answer.text).error.message).toContain('Demand was too low; there is no replacement.');
  });

  test('operators can count its requests and its days', async () => {
    const model = await createModel();
    await announced(model, { sunset_at: iso(sunsetMs) });
    for (let count = 0; count < 3; count++) await request(surfaces['chat completions']!, model);
    const { text } = await gateway.call('GET', '/metrics');
    const value = (name: string) => Number(new RegExp(`^${name}\\{model="${model}"\\} (\\S+)$`, 'm').exec(text)?.[1]);
    expect(value('gateway_retiring_model_requests_total')).toBeGreaterThanOrEqual(3);
    expect(value('gateway_model_retirement_days_left')).toBe(10);
  });
});

describe('once it is retired', () => {
  test('an unmodified client gets 410 model_sunset and asks once', async () => {
    const model = await createModel();
    await announced(model, { sunset_at: iso(sunsetMs) });
    let calls = 0;
    const client = new OpenAI({
      apiKey: key,
      baseURL: `${gateway.url}/v1`,
      maxRetries: 5,
      fetch: (...call) => {
        calls += 1;
        return fetch(...call);
      },
    });
    const messages = [{ role: 'user' as const, content: 'Hi' }];
    await at(sunsetMs, async () => {
      for (const stream of [false, true]) {
        calls = 0;
        const failure = client.chat.completions.create({ model, messages, stream });
        await expect(failure).rejects.toMatchObject({
          status: 410,
          code: 'model_sunset',
          type: 'invalid_request_error',
        });
        expect(calls).toBe(1);
      }
      await expect(client.models.retrieve(model)).rejects.toMatchObject({ status: 410, code: 'model_sunset' });
    });
  });

  test('it is named among the deprecations', async () => {
    const model = await createModel();
    await announced(model, { sunset_at: iso(sunsetMs) });
    await at(sunsetMs, async () => {
      const answer = await gateway.call('GET', '/v1/models/deprecations', key);
      expect(answer.json.data.find(({ id }: { id: string }) => id === model)).toMatchObject({
        sunset_at: iso(sunsetMs),
        is_serviceable: false,
      });
    });
  });

  test('no upstream is asked and nothing is charged, whatever comes before', async () => {
    await using simulator = await startUpstreamSimulator();
    const [model, successor] = ['acme/on-simulator', 'acme/after-it'];
    for (const name of [model, successor]) {
      await admin('POST', '/models', { name, operations: ['chat_completions'] });
      await admin('POST', '/deployments', { model: name, base_url: simulator.url, upstream_model: 'sim-chat' });
      await admin('POST', '/prices', { model: name, per_request_usd: 1 });
    }
    const chat = surfaces['chat completions']!;
    await announced(model, { sunset_at: iso(sunsetMs), replacement_model_name: successor });
    expect((await request(chat, model)).status).toBe(200);
    const { length: asked } = simulator.requests;
    await at(sunsetMs, async () => {
      for (const stream of [false, true]) expect((await request(chat, model, { stream })).status).toBe(410);
    });
    expect(simulator.requests.length).toBe(asked);
    expect((await request(chat, successor)).status).toBe(200);
    expect(simulator.requests.length).toBe(asked + 1);
    const costs = await waitFor(
      async () => {
        const { json } = await gateway.call('GET', '/api/v1/usage/history?limit=500', operator);
        const events = json.data.filter((event: { model: string }) => [model, successor].includes(event.model));
        return events.some((event: { model: string }) => event.model === successor) && events;
      },
      { description: 'the later use in the history' },
    );
    const charged = costs.filter((event: { cost_usd: number }) => event.cost_usd > 0);
    expect(charged.length).toBe(asked + 1);
  });

  test.each([
    ['upper case', (name: string) => name.toUpperCase()],
    ['a space behind', (name: string) => `${name} `],
    ['a space before', (name: string) => ` ${name}`],
    ['a full-width letter', (name: string) => name.replace('a', 'ａ')],
    ['a zero-width space', (name: string) => `${name}\u200b`],
    ['a NUL', (name: string) => `${name}\u0000`],
    ['percent-encoding', (name: string) => encodeURIComponent(name)],
  ])('%s does not bring it back', async (_how, disguise) => {
    const model = await createModel();
    await announced(model, { sunset_at: iso(sunsetMs) });
    await at(sunsetMs, async () => {
      const answer = await request(surfaces['chat completions']!, disguise(model));
      expect([400, 404, 410]).toContain(answer.status);
    });
  });

  test('it is so on every edge at once, also on one that hears of nothing any more', async () => {
    const model = await createModel();
    await announced(model, { sunset_at: iso(sunsetMs) });
    const rpc = new URL(gateway.gateway.rpcUrl!);
    await using proxy = await startFaultProxy({ target: { host: rpc.hostname, port: Number(rpc.port) } });
    const others = ['keys', 'auth', 'usage', 'billing'].map((name) => [name, rpc.origin] as const);
    const dataDir = mkdtempSync(join(tmpdir(), 'gateway-'));
    const edge = await startGateway(
      { ...gateway.env, dataDir, rpcUrls: new Map([...others, ['models', `http://${proxy.host}:${proxy.port}`]]) },
      { services: [], edge: true, worker: false },
      silentLogger,
    );
    try {
      const chat = async () => {
        const { path, headers, ...init } = surfaces['chat completions']!.send(model, false);
        const response = await fetch(`${edge.url}/v1${path}`, {
          ...init,
          headers: { ...headers, authorization: `Bearer ${key}` },
        });
        return { status: response.status, sunset: response.headers.get('sunset'), text: await response.text() };
      };
      expect(await chat()).toMatchObject({ status: 200, sunset: new Date(sunsetMs).toUTCString() });
      await proxy.set({ kind: 'blackhole' });
      expect((await at(sunsetMs - 1, chat)).status).toBe(200);
      const retired = await at(sunsetMs, chat);
      expect(retired.status).toBe(410);
      expect(JSON.parse(retired.text).error.code).toBe('model_sunset');
      expect((await at(sunsetMs, () => request(surfaces['chat completions']!, model))).status).toBe(410);
    } finally {
      await proxy.set({ kind: 'reset' });
      await edge.close();
      rmSync(dataDir, { recursive: true, force: true });
    }
  });

  test('a stream that was admitted before finishes', async () => {
    const model = await createModel();
    await announced(model, { sunset_at: iso(sunsetMs) });
    await at(sunsetMs - 1, async () => {
      const stream = await gateway
        .openai(key)
        .chat.completions.create({ model, messages: [{ role: 'user', content: 'Tell me a story.' }], stream: true });
      let finished: string | null = null;
      for await (const chunk of stream) {
        clock.set(sunsetMs);
        finished = chunk.choices[0]?.finish_reason ?? finished;
      }
      expect(finished).toBe('stop');
      expect((await request(surfaces['chat completions']!, model)).status).toBe(410);
    });
  });

  test('its date can no longer be moved, nor the announcement withdrawn', async () => {
    const model = await createModel();
    await announced(model, { sunset_at: iso(sunsetMs) });
    await at(sunsetMs, async () => {
      operator = await gateway.login();
      const moved = await admin('PATCH', `/retirements/${encodeURIComponent(model)}`, {
        sunset_at: iso(sunsetMs + dayMs),
      });
      expect(moved).toMatchObject({ status: 409, json: { error: { code: 'conflict' } } });
      expect((await admin('DELETE', `/retirements/${encodeURIComponent(model)}`)).status).toBe(409);
      expect((await admin('DELETE', `/models/${encodeURIComponent(model)}`)).status).toBe(409);
      expect((await announce(model)).status).toBe(409);
      expect((await request(surfaces['chat completions']!, model)).status).toBe(410);
    });
    operator = await gateway.login();
  });
});

describe('a private model', () => {
  test.each(['serving', 'announced', 'retired'])('%s and never granted is the ordinary 404', async (state) => {
    const model = await createModel({ visibility: 'private' });
    if (state !== 'serving') {
      expect((await announce(model, { sunset_at: iso(sunsetMs) })).status).toBe(201);
    }
    await at(state === 'retired' ? sunsetMs : startMs, async () => {
      for (const surface of Object.values(surfaces)) {
        const hidden = await request(surface, model);
        const unknown = await request(surface, 'acme/no-such-model');
        expect(hidden.status).toBe(404);
        expect(hidden.text.replaceAll(model, 'acme/no-such-model')).toBe(unknown.text);
        const names = (headers: Headers) => [...headers.keys()].sort();
        expect(names(hidden.headers)).toEqual(names(unknown.headers));
      }
    });
  });

  test('is not told of by the successor of a public one', async () => {
    const secret = await createModel({ visibility: 'private' });
    const answer = await announce(await createModel(), { replacement_model_name: secret });
    expect(answer).toMatchObject({ status: 400, json: { error: { param: 'replacement_model_name' } } });
  });
});

describe('an announcement', () => {
  test.each([
    [{ sunset_at: iso(startMs - 1) }, 'sunset_at'],
    [{ sunset_at: iso(startMs) }, 'sunset_at'],
    [{ sunset_at: '1970-01-01' }, 'sunset_at'],
    [{ sunset_at: 'soon' }, 'sunset_at'],
    [{ replacement_model_name: null }, 'replacement_model_name'],
    [{ replacement_model_name: 'sandbox-chat', retirement_note: 'Both.' }, 'retirement_note'],
    [{ replacement_model_name: 'acme/no-such-model' }, 'replacement_model_name'],
    [{ retirement_note: '' }, 'retirement_note'],
    [{ retirement_note: '   ' }, 'retirement_note'],
    [{ retirement_note: 'a\r\nLink: <https://evil.example>' }, 'retirement_note'],
    [{ retirement_note: 'x'.repeat(1001) }, 'retirement_note'],
    [{ deprecated_at: iso(startMs - dayMs) }, 'deprecated_at'],
  ])('with %j is refused naming the field, and nothing is announced', async (fields, param) => {
    const model = await createModel();
    const answer = await announce(model, fields);
    expect(answer.status, answer.text).toBe(400);
    expect(answer.json.error.param).toBe(param);
    expect((await admin('GET', `/models/${encodeURIComponent(model)}`)).json.deprecated_at).toBeNull();
    expect((await admin('GET', `/retirements?model=${encodeURIComponent(model)}`)).json.data).toEqual([]);
  });

  test('cannot name itself, a retiring or a retired model as the successor', async () => {
    const model = await createModel();
    const retiring = await createModel();
    await announced(retiring, { sunset_at: iso(sunsetMs) });
    for (const successor of [model, retiring]) {
      const answer = await announce(model, { replacement_model_name: successor });
      expect(answer).toMatchObject({ status: 400, json: { error: { param: 'replacement_model_name' } } });
    }
    await at(sunsetMs, async () => {
      operator = await gateway.login();
      const answer = await announce(model, { replacement_model_name: retiring });
      expect(answer).toMatchObject({ status: 400, json: { error: { param: 'replacement_model_name' } } });
    });
    operator = await gateway.login();
  });

  test('is made once: a second is a conflict, and deprecated_at never moves', async () => {
    const model = await createModel();
    await announced(model);
    await at(startMs + dayMs, async () => {
      operator = await gateway.login();
      expect((await announce(model)).status).toBe(409);
      const moved = await admin('PATCH', `/retirements/${encodeURIComponent(model)}`, { sunset_at: iso(sunsetMs) });
      expect(moved.json).toMatchObject({ deprecated_at: iso(startMs), sunset_at: iso(sunsetMs) });
      const before = await admin('PATCH', `/retirements/${encodeURIComponent(model)}`, { sunset_at: iso(startMs - 1) });
      expect(before).toMatchObject({ status: 400, json: { error: { param: 'sunset_at' } } });
      const past = await admin('PATCH', `/retirements/${encodeURIComponent(model)}`, { sunset_at: iso(startMs + 1) });
      expect(past).toMatchObject({ status: 400, json: { error: { param: 'sunset_at' } } });
      const later = await admin('PATCH', `/retirements/${encodeURIComponent(model)}`, {
        sunset_at: iso(sunsetMs * 1 + 1),
      });
      expect(later.json).toMatchObject({ deprecated_at: iso(startMs), sunset_at: iso(sunsetMs + 1) });
    });
    operator = await gateway.login();
  });

  test('that is withdrawn leaves no trace in headers or listing, and may be made again', async () => {
    const model = await createModel();
    await announced(model, { sunset_at: iso(sunsetMs) });
    // Its users were told until when it serves.
    expect((await admin('DELETE', `/models/${encodeURIComponent(model)}`)).status).toBe(409);
    expect((await admin('DELETE', `/retirements/${encodeURIComponent(model)}`)).status).toBe(204);
    await edgeKnows(model, (headers) => !headers.has('deprecation'));
    const served = await at(sunsetMs, () => request(surfaces['chat completions']!, model));
    expect(served.status).toBe(200);
    expect(served.headers.has('link')).toBe(false);
    const { data } = (await admin('GET', `/retirements?model=${encodeURIComponent(model)}`)).json;
    expect(data).toMatchObject([{ model, withdrawn_at: iso(startMs) }]);
    await announced(model, { sunset_at: iso(sunsetMs) });
  });

  test('is audited with each of its changes', async () => {
    const model = await createModel();
    await announced(model);
    const path = `/retirements/${encodeURIComponent(model)}`;
    await admin('PATCH', path, { sunset_at: iso(sunsetMs) });
    await admin('DELETE', path);
    const types = await waitFor(
      async () => {
        const { json } = await admin('GET', '/audit-events?limit=100');
        const own = json.data.filter(({ target }: { target: { id: string } }) => target.id === model);
        return own.length >= 4 && own.map(({ type }: { type: string }) => type).reverse();
      },
      { description: 'the audit events' },
    );
    expect(types).toEqual([
      'model_created',
      'model_retirement_announced',
      'model_sunset_date_set',
      'model_retirement_withdrawn',
    ]);
  });

  test.each(['weird/na:me@v+1', 'A..B/c_d'])('of %s is one well-formed Link', async (name) => {
    await createModel({ name });
    await announced(name, { retirement_note: 'Größe „>“ <b> "quoted", ключ; ends.' });
    const answer = await request(surfaces['chat completions']!, name);
    expect(linksOf(answer.headers)).toEqual({ deprecation: pageOf(name) });
  });
});

describe('the page which the Link names', () => {
  const page = async (model: string) => {
    const response = await fetch(`${gateway.url}/retirements/${model}`);
    return { status: response.status, headers: response.headers, text: await response.text() };
  };

  test('says what retires, when, and what comes after, to anybody, in every spelling of the path', async () => {
    const model = await createModel();
    await announced(model, { sunset_at: iso(sunsetMs) });
    const encoded = await page(encodeURIComponent(model));
    expect(encoded.status).toBe(200);
    expect(encoded.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(encoded.headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'sha256-/);
    for (const text of [model, 'sandbox-chat', `datetime="${iso(sunsetMs)}"`, `datetime="${iso(startMs)}"`]) {
      expect(encoded.text).toContain(text);
    }
    expect(encoded.text).not.toContain('<script');
    expect((await page(model)).text).toBe(encoded.text);
    expect((await at(sunsetMs, () => page(model))).text).toContain('was retired on');
  });

  test('escapes what an operator wrote', async () => {
    const model = await createModel();
    await announced(model, { retirement_note: '<img src=x onerror=alert(1)> & "quotes"' });
    const { text } = await page(model);
    expect(text).not.toContain('<img');
    expect(text).toContain('&#60;img src=x onerror=alert(1)&#62; &#38; &#34;quotes&#34;');
  });

  test('is the same 404 for unknown, serving and private models, whatever their state', async () => {
    const unknown = await page('acme/no-such-model');
    expect(unknown.status).toBe(404);
    const secret = await createModel({ visibility: 'private' });
    expect((await announce(secret, { sunset_at: iso(sunsetMs) })).status).toBe(201);
    for (const name of [secret, 'sandbox-chat', '<script>', '%3Cscript%3E', 'x'.repeat(900)]) {
      const other = await page(name);
      expect(other.status).toBe(404);
      expect(other.text).toBe(unknown.text);
    }
    expect((await at(sunsetMs, () => page(secret))).text).toBe(unknown.text);
  });
});
