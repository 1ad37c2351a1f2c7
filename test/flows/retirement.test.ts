import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { parseItem } from 'structured-headers';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startGateway } from '../../services/cmd/gateway.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import {
  dayMs,
  iso,
  json,
  linksOf,
  pageOf,
  type RetirementBench,
  startMs,
  startRetirementBench,
  sunsetMs,
  surfaces,
} from '../support/retirements.ts';
import { silentLogger } from '../support/silent-logger.ts';
import { startUpstreamSimulator } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: RetirementBench;
beforeAll(async () => {
  bench = await startRetirementBench();
});
afterAll(() => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.refillRateLimits());

const recordOf = (model: string) => `http://gateway.test/v1/models/${encodeURIComponent(model)}`;

/** RFC 9745 section 2: an Item that is a Date, in whole seconds. */
function deprecationOf(headers: Headers): number {
  const [date, parameters] = parseItem(headers.get('deprecation')!);
  expect(parameters.size).toBe(0);
  expect(date).toBeInstanceOf(Date);
  return (date as Date).getTime();
}

const cases = Object.entries(surfaces).flatMap(([name, surface]) =>
  (surface.streams ? [false, true] : [false]).map((stream) => ({ name, surface, stream })),
);

describe('every surface announces a retirement in its headers', () => {
  test.each(cases)('$name, stream: $stream, announced, dated and retired', async ({ name, surface, stream }) => {
    const model = await bench.createModel({ operations: [surface.operation], upstream: surface.upstream });
    const unannounced = await waitFor(
      async () => {
        const answer = await bench.request(surface, model, { stream });
        return answer.status === 200 && answer;
      },
      { description: `${name} to serve`, timeoutMs: 2_000, intervalMs: 20 },
    );
    for (const header of ['deprecation', 'sunset', 'link']) expect(unannounced.headers.has(header)).toBe(false);

    for (const state of ['announced', 'dated', 'retired'] as const) {
      if (state === 'announced') await bench.announced(model);
      if (state === 'dated') await bench.dated(model, sunsetMs);
      const answer = await bench.at(state === 'retired' ? sunsetMs : sunsetMs - 1, () =>
        bench.request(surface, model, { stream }),
      );
      expect(answer.status, state).toBe(state === 'retired' ? 410 : 200);
      expect(deprecationOf(answer.headers), state).toBe(Math.floor(startMs / 1000) * 1000);
      expect(linksOf(answer.headers), state).toEqual({
        deprecation: pageOf(model),
        'successor-version': recordOf('sandbox-chat'),
      });
      if (state === 'announced') expect(answer.headers.has('sunset')).toBe(false);
      else {
        // RFC 9110 section 5.6.7: an IMF-fixdate.
        const imfFixdate = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;
        expect(answer.headers.get('sunset'), state).toMatch(imfFixdate);
        expect(Date.parse(answer.headers.get('sunset')!), state).toBe(sunsetMs);
      }
      if (state === 'retired') {
        expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
        expect(answer.headers.get('x-should-retry')).toBe('false');
        const { error } = JSON.parse(answer.text);
        expect(error).toMatchObject({ type: 'invalid_request_error', param: 'model', code: 'model_sunset' });
        expect(error.message).toContain(iso(sunsetMs).slice(0, 10));
        expect(error.message).toContain('sandbox-chat');
      } else if (name !== 'GET model by id') {
        expect(withoutIds(answer.text), state).toBe(withoutIds(unannounced.text));
      }
    }
  });
});

/** An answer without its ids and times, in which two answers of the same words differ. */
const withoutIds = (text: string): string =>
  text.replace(/"(id|created|created_at)":("[^"]*"|\d+)/g, '"$1":0').replace(/resp_\w+|chatcmpl-\w+|cmpl-\w+/g, '');

describe('while it is announced', () => {
  test('the model stays in the listing with its retirement as fields', async () => {
    const model = await bench.createModel();
    await bench.announced(model, { sunset_at: iso(sunsetMs) });
    const find = async (prefix: string) =>
      (await bench.gateway.call('GET', `${prefix}/models`, bench.key)).json.data.find(
        ({ id }: { id: string }) => id === model,
      );
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
    expect(await bench.at(sunsetMs - 1, () => find('/v1'))).toBeDefined();
    expect(await bench.at(sunsetMs, () => find('/v1'))).toBeUndefined();
  });

  test('nothing else changes for its users: neither its price nor their limits', async () => {
    const model = 'acme/priced';
    await bench.admin('POST', '/models', { name: model, operations: ['chat_completions'] });
    await bench.admin('POST', '/prices', { model, per_request_usd: 0.5, output_per_million_tokens_usd: 2 });
    await bench.admin('POST', '/deployments', { model, dialect: 'sandbox', upstream_model: 'sandbox-chat' });
    const chat = surfaces['chat completions']!;
    // Changes arrive in their order: where the deployment is known, so is the price.
    await waitFor(async () => (await bench.request(chat, model)).status === 200, { description: 'the model to serve' });
    const bearers = await Promise.all([1, 2, 3].map(async () => (await bench.gateway.createKey(bench.operator)).key));
    const use = async (index: number) => {
      const { status, headers } = await bench.request(chat, model, { key: bearers[index]! });
      expect(status).toBe(200);
      return {
        requestId: headers.get('x-request-id'),
        limits: [...headers].filter(([name]) => name.startsWith('x-ratelimit-')),
      };
    };
    const before = await use(0);
    await bench.announced(model, { sunset_at: iso(sunsetMs) });
    const announcedUse = await use(1);
    const lastUse = await bench.at(sunsetMs - 1, () => use(2));
    expect(before.limits.length).toBeGreaterThan(0);
    expect([announcedUse.limits, lastUse.limits]).toEqual([before.limits, before.limits]);

    const costs = await waitFor(
      () =>
        bench.at(sunsetMs, async () => {
          const session = await bench.gateway.login();
          const { json } = await bench.gateway.call('GET', '/api/v1/usage/history?limit=500', session);
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
    const model = await bench.createModel();
    await bench.announced(model);
    const chat = surfaces['chat completions']!;
    const listing = (await bench.gateway.createKey(bench.operator, { scopes: ['models:list'] })).key;
    const elsewhere = (await bench.gateway.createKey(bench.operator, { model_allowlist: ['sandbox-chat'] })).key;
    const refused = [
      [403, await bench.request(chat, model, { key: listing })],
      [403, await bench.request(chat, model, { key: elsewhere })],
      [400, await bench.request({ ...chat, send: json('/chat/completions', { messages: 'none' }) }, model)],
      [400, await bench.request(surfaces.embeddings!, model)],
      [403, await bench.request(surfaces['GET model by id']!, model, { key: listing })],
    ] as const;
    for (const [status, answer] of refused) {
      expect(answer.status, answer.text).toBe(status);
      expect(linksOf(answer.headers).deprecation).toBe(pageOf(model));
    }
  });

  test('a note replaces the successor, and then no successor is linked', async () => {
    const model = await bench.createModel();
    await bench.announced(model, {
      sunset_at: iso(sunsetMs),
      retirement_note: 'Demand was too low; there is no replacement.',
    });
    const answer = await bench.at(sunsetMs, () => bench.request(surfaces['chat completions']!, model));
    expect(linksOf(answer.headers)).toEqual({ deprecation: pageOf(model) });
    expect(JSON.parse(answer.text).error.message).toContain('Demand was too low; there is no replacement.');
  });

  test('operators can count its requests and its days', async () => {
    const model = await bench.createModel();
    await bench.announced(model, { sunset_at: iso(sunsetMs) });
    for (let count = 0; count < 3; count++) await bench.request(surfaces['chat completions']!, model);
    const { text } = await bench.gateway.call('GET', '/metrics');
    const value = (name: string) => Number(new RegExp(`^${name}\\{model="${model}"\\} (\\S+)$`, 'm').exec(text)?.[1]);
    expect(value('gateway_retiring_model_requests_total')).toBeGreaterThanOrEqual(3);
    expect(value('gateway_model_retirement_days_left')).toBe(10);
  });
});

describe('once it is retired', () => {
  test('an unmodified client gets 410 model_sunset and asks once', async () => {
    const model = await bench.createModel();
    await bench.announced(model, { sunset_at: iso(sunsetMs) });
    let calls = 0;
    const client = new OpenAI({
      apiKey: bench.key,
      baseURL: `${bench.gateway.url}/v1`,
      maxRetries: 5,
      fetch: (...call) => {
        calls += 1;
        return fetch(...call);
      },
    });
    const messages = [{ role: 'user' as const, content: 'Hi' }];
    await bench.at(sunsetMs, async () => {
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

  test('it is listed among the deprecations', async () => {
    const model = await bench.createModel();
    await bench.announced(model, { sunset_at: iso(sunsetMs) });
    await bench.at(sunsetMs, async () => {
      const answer = await bench.gateway.call('GET', '/v1/models/deprecations', bench.key);
      expect(answer.json.data.find(({ id }: { id: string }) => id === model)).toMatchObject({
        sunset_at: iso(sunsetMs),
        is_serviceable: false,
      });
    });
  });

  test('no upstream is asked and nothing is charged', async () => {
    await using simulator = await startUpstreamSimulator();
    const [model, successor] = ['acme/on-simulator', 'acme/after-it'];
    for (const name of [model, successor]) {
      await bench.admin('POST', '/models', { name, operations: ['chat_completions'] });
      await bench.admin('POST', '/deployments', { model: name, base_url: simulator.url, upstream_model: 'sim-chat' });
      await bench.admin('POST', '/prices', { model: name, per_request_usd: 1 });
    }
    const chat = surfaces['chat completions']!;
    await bench.announced(model, { sunset_at: iso(sunsetMs), replacement_model_name: successor });
    expect((await bench.request(chat, model)).status).toBe(200);
    const { length: asked } = simulator.requests;
    await bench.at(sunsetMs, async () => {
      for (const stream of [false, true]) expect((await bench.request(chat, model, { stream })).status).toBe(410);
    });
    expect(simulator.requests.length).toBe(asked);
    expect((await bench.request(chat, successor)).status).toBe(200);
    expect(simulator.requests.length).toBe(asked + 1);
    const costs = await waitFor(
      async () => {
        const { json } = await bench.gateway.call('GET', '/api/v1/usage/history?limit=500', bench.operator);
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
    const model = await bench.createModel();
    await bench.announced(model, { sunset_at: iso(sunsetMs) });
    await bench.at(sunsetMs, async () => {
      const answer = await bench.request(surfaces['chat completions']!, disguise(model));
      expect([400, 404, 410]).toContain(answer.status);
    });
  });

  test('all edges refuse it at once, even one that no longer hears anything', async () => {
    const model = await bench.createModel();
    await bench.announced(model, { sunset_at: iso(sunsetMs) });
    const rpc = new URL(bench.gateway.gateway.rpcUrl!);
    await using proxy = await startFaultProxy({ target: { host: rpc.hostname, port: Number(rpc.port) } });
    const others = ['keys', 'auth', 'usage', 'billing'].map((name) => [name, rpc.origin] as const);
    const dataDir = mkdtempSync(join(tmpdir(), 'gateway-'));
    const edge = await startGateway(
      {
        ...bench.gateway.env,
        dataDir,
        rpcUrls: new Map([...others, ['models', `http://${proxy.host}:${proxy.port}`]]),
      },
      { services: [], edge: true, worker: false },
      silentLogger,
    );
    try {
      const chat = async () => {
        const { method, path, body } = surfaces['chat completions']!.send(model, false);
        const response = await fetch(`${edge.url}/v1${path}`, {
          method,
          headers: { 'content-type': 'application/json', authorization: `Bearer ${bench.key}` },
          body: JSON.stringify(body),
        });
        return { status: response.status, sunset: response.headers.get('sunset'), text: await response.text() };
      };
      expect(await chat()).toMatchObject({ status: 200, sunset: new Date(sunsetMs).toUTCString() });
      await proxy.set({ kind: 'blackhole' });
      expect((await bench.at(sunsetMs - 1, chat)).status).toBe(200);
      const retired = await bench.at(sunsetMs, chat);
      expect(retired.status).toBe(410);
      expect(JSON.parse(retired.text).error.code).toBe('model_sunset');
      expect((await bench.at(sunsetMs, () => bench.request(surfaces['chat completions']!, model))).status).toBe(410);
    } finally {
      await proxy.set({ kind: 'reset' });
      await edge.close();
      rmSync(dataDir, { recursive: true, force: true });
    }
  });

  test('a stream that was admitted before finishes', async () => {
    const model = await bench.createModel();
    await bench.announced(model, { sunset_at: iso(sunsetMs) });
    await bench.at(sunsetMs - 1, async () => {
      const stream = await bench.gateway
        .openai(bench.key)
        .chat.completions.create({ model, messages: [{ role: 'user', content: 'Tell me a story.' }], stream: true });
      let finished: string | null = null;
      for await (const chunk of stream) {
        bench.clock.set(sunsetMs);
        finished = chunk.choices[0]?.finish_reason ?? finished;
      }
      expect(finished).toBe('stop');
      expect((await bench.request(surfaces['chat completions']!, model)).status).toBe(410);
    });
  });

  test('it is gone for everyone who knew it, and nobody is told that it never existed', async () => {
    const model = await bench.createModel();
    await bench.announced(model, { sunset_at: iso(sunsetMs) });
    const hide = () => bench.admin('PATCH', `/models/${encodeURIComponent(model)}`, { visibility: 'private' });
    expect(await hide()).toMatchObject({ status: 409, json: { error: { code: 'conflict' } } });
    await bench.at(sunsetMs, async () => {
      await bench.signIn();
      expect((await hide()).status).toBe(409);
      expect((await bench.request(surfaces['chat completions']!, model)).status).toBe(410);
    });
    await bench.signIn();
    // A model whose announcement was withdrawn may become private.
    expect((await bench.admin('DELETE', `/retirements/${encodeURIComponent(model)}`)).status).toBe(204);
    expect((await hide()).status).toBe(200);
  });

  test('its date can no longer be moved, nor the announcement withdrawn', async () => {
    const model = await bench.createModel();
    await bench.announced(model, { sunset_at: iso(sunsetMs) });
    await bench.at(sunsetMs, async () => {
      await bench.signIn();
      const moved = await bench.admin('PATCH', `/retirements/${encodeURIComponent(model)}`, {
        sunset_at: iso(sunsetMs + dayMs),
      });
      expect(moved).toMatchObject({ status: 409, json: { error: { code: 'conflict' } } });
      expect((await bench.admin('DELETE', `/retirements/${encodeURIComponent(model)}`)).status).toBe(409);
      expect((await bench.admin('DELETE', `/models/${encodeURIComponent(model)}`)).status).toBe(409);
      expect((await bench.announce(model)).status).toBe(409);
      expect((await bench.request(surfaces['chat completions']!, model)).status).toBe(410);
    });
    await bench.signIn();
  });
});

describe('a private model', () => {
  test.each(['serving', 'announced', 'retired'])('%s and never granted is the ordinary 404', async (state) => {
    const model = await bench.createModel({ visibility: 'private' });
    if (state !== 'serving') {
      expect((await bench.announce(model, { sunset_at: iso(sunsetMs) })).status).toBe(201);
    }
    await bench.at(state === 'retired' ? sunsetMs : startMs, async () => {
      for (const surface of Object.values(surfaces)) {
        const hidden = await bench.request(surface, model);
        const unknown = await bench.request(surface, 'acme/no-such-model');
        expect(hidden.status).toBe(404);
        expect(hidden.text.replaceAll(model, 'acme/no-such-model')).toBe(unknown.text);
        const names = (headers: Headers) => [...headers.keys()].sort();
        expect(names(hidden.headers)).toEqual(names(unknown.headers));
      }
    });
  });

  test('is not revealed as the successor of a public one', async () => {
    const secret = await bench.createModel({ visibility: 'private' });
    const answer = await bench.announce(await bench.createModel(), { replacement_model_name: secret });
    expect(answer).toMatchObject({ status: 400, json: { error: { param: 'replacement_model_name' } } });
  });

  test('named as a successor remains usable by everyone who is told of it', async () => {
    const [insider, other] = [await organization(), await organization()];
    const [retiring, secret] = await Promise.all([
      bench.createModel({ visibility: 'private' }),
      bench.createModel({ visibility: 'private' }),
    ]);
    for (const model of [retiring, secret]) await granted(model, insider);
    expect((await bench.announce(retiring, { replacement_model_name: secret })).status).toBe(201);
    const path = (model: string) => `/models/${encodeURIComponent(model)}`;
    // Without what the edge's reports change meanwhile: newly created deployments begin to serve.
    const catalog = async () =>
      (await bench.admin('GET', '/models?search=acme')).json.data.map(
        ({ deployments, is_serviceable, ...model }: Record<string, unknown>) => model,
      );
    const change: [string, string, object?][] = [
      ['POST', '/grants', { model: retiring, tenant_id: other }],
      ['DELETE', `/grants?model=${encodeURIComponent(secret)}&tenant_id=${insider}`],
      ['PATCH', path(retiring), { visibility: 'public' }],
      ['DELETE', path(secret)],
    ];
    for (const [method, url, body] of change) {
      const before = await catalog();
      const refused = await bench.admin(method, url, body);
      expect([method, url, refused.status, refused.json?.error?.code]).toEqual([method, url, 409, 'conflict']);
      expect(refused.json.error.message).toContain(`\`${secret}\` is the successor of \`${retiring}\``);
      expect(await catalog()).toEqual(before);
    }
    // In the right order all of it can be done.
    await granted(secret, other);
    await granted(retiring, other);
    expect((await bench.admin('PATCH', path(secret), { visibility: 'public' })).status).toBe(200);
    expect((await bench.admin('PATCH', path(retiring), { visibility: 'public' })).status).toBe(200);
    expect((await bench.admin('PATCH', path(secret), { visibility: 'private' })).status).toBe(409);
    expect((await bench.admin('DELETE', path(secret))).status).toBe(409);
    expect((await bench.admin('DELETE', `/retirements/${encodeURIComponent(retiring)}`)).status).toBe(204);
    expect((await bench.admin('DELETE', path(secret))).status).toBe(204);
  });
});

let organizations = 0;
async function organization(): Promise<string> {
  organizations += 1;
  const body = { name: 'Another', owner_email: `owner-${organizations}@another.example` };
  return (await bench.admin('POST', '/organizations', body)).json.organization.id;
}
async function granted(model: string, tenant_id: string): Promise<void> {
  expect((await bench.admin('POST', '/grants', { model, tenant_id })).status).toBe(201);
}
