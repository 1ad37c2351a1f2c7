import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type GatewayParts, startGateway } from '../../services/cmd/gateway.ts';
import { freePort } from '../support/free-port.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { rawRequest } from '../support/raw-request.ts';
import { silentLogger } from '../support/silent-logger.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: InferenceBench;
beforeAll(async () => {
  bench = await startInferenceBench();
});
afterAll(async () => bench?.[Symbol.asyncDispose]());

/** How many requests were counted for a route and a status. */
async function counted(route: string, status: number): Promise<number> {
  const { text } = await bench.gateway.call('GET', '/metrics');
  const line = `gateway_http_requests_total{route="${route}",status="${status}"} `;
  return Number(
    text
      .split('\n')
      .find((each) => each.startsWith(line))
      ?.slice(line.length) ?? 0,
  );
}

test.each([
  ['an answer', 'POST', '/v1/chat/completions', 200, {}],
  ['a stream', 'POST', '/v1/chat/completions', 200, { body: { stream: true } }],
  ['an answer under the other prefix', 'POST', '/api/v1/chat/completions', 200, {}],
  ['an upstream failure', 'POST', '/v1/chat/completions', 502, { fault: true }],
  ['a job', 'POST', '/v1/chat/completions', 202, { headers: { prefer: 'respond-async' } }],
  ['a refusal at the door', 'POST', '/v1/chat/completions', 401, { key: 'invented' }],
  ['a refused body', 'POST', '/v1/chat/completions', 400, { body: { model: 5 } }],
  ['a management call', 'GET', '/api/v1/api-keys', 200, { asPerson: true }],
  ['a refused management call', 'GET', '/api/v1/api-keys', 401, { key: 'invented' }],
] as const)('%s is counted once, by route and status', async (_name, method, path, status, given) => {
  const { gateway, simulator, session, key } = bench;
  const {
    body,
    headers,
    key: shown,
    asPerson,
    fault,
  } = given as {
    body?: object;
    headers?: Record<string, string>;
    key?: string;
    asPerson?: boolean;
    fault?: boolean;
  };
  if (fault) simulator.next('server-error');
  const before = await counted(path, status);
  const answer = await fetch(gateway.url + path, {
    method,
    headers: {
      authorization: `Bearer ${shown ?? (asPerson ? session : key.key)}`,
      ...(method === 'POST' && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(method === 'POST' && {
      body: JSON.stringify({ model: 'sim-chat', messages: [{ role: 'user', content: 'Hi' }], ...body }),
    }),
  });
  const text = await answer.text();
  expect([answer.status, text]).toEqual([status, expect.anything()]);
  await waitFor(async () => (await counted(path, status)) === before + 1, { description: 'the request to be counted' });
  if (status !== 202) return;
  // What it uses is counted while it runs, in whichever test that is.
  const { id } = JSON.parse(text);
  const jobStatus = async () => JSON.parse((await gateway.call('GET', `/api/v1/jobs/${id}`, session)).text).status;
  await waitFor(async () => (await jobStatus()) === 'completed', { description: 'the job to end' });
});

test('tokens are counted by model, and calls to a deployment by their outcome', async () => {
  const { gateway, simulator, key } = bench;
  const sum = async (series: RegExp): Promise<number> => {
    const { text } = await gateway.call('GET', '/metrics');
    const values = text.split('\n').filter((line) => series.test(line));
    return values.reduce((total, line) => total + Number(line.split(' ').at(-1)), 0);
  };
  const all = async () => ({
    input: await sum(/^gateway_tokens_total\{model="sim-chat",kind="input"\}/),
    output: await sum(/^gateway_tokens_total\{model="sim-chat",kind="output"\}/),
    answered: await sum(/^gateway_upstream_requests_total\{model="sim-chat",deployment="[^"]+",outcome="answered"\}/),
    failed: await sum(/^gateway_upstream_requests_total\{model="sim-chat",deployment="[^"]+",outcome="failed"\}/),
    begun: await sum(/^gateway_upstream_first_byte_seconds_count\{model="sim-chat",deployment="[^"]+"\}/),
  });
  const chat = () =>
    gateway.call('POST', '/v1/chat/completions', key.key, {
      model: 'sim-chat',
      messages: [{ role: 'user', content: 'Hi' }],
    });
  const before = await all();
  const { usage } = JSON.parse((await chat()).text);
  simulator.next('server-error');
  expect((await chat()).status).toBe(502);
  expect(await all()).toEqual({
    input: before.input + usage.prompt_tokens,
    output: before.output + usage.completion_tokens,
    answered: before.answered + 1,
    failed: before.failed + 1,
    begun: before.begun + 1,
  });

  simulator.next('hang-before-head');
  const leaving = new AbortController();
  const running = fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key.key}` },
    body: JSON.stringify({ model: 'sim-chat', messages: [] }),
    signal: leaving.signal,
  }).catch(() => 'left');
  const inFlight = () => sum(/^gateway_upstream_in_flight\{model="sim-chat"/);
  await waitFor(async () => (await inFlight()) === 1, { description: 'the call to be in flight' });
  leaving.abort();
  expect(await running).toBe('left');
  await waitFor(async () => (await inFlight()) === 0, { description: 'the call to be over' });
  expect(await sum(/^gateway_upstream_requests_total\{model="sim-chat",.*outcome="abandoned"\}/)).toBe(1);
  expect(await sum(/^gateway_upstream_available\{model="sim-chat"/)).toBe(1);
  expect(await sum(/^gateway_cached_keys /)).toBeGreaterThan(0);
  expect(await sum(/^gateway_feed_live\{/)).toBe(2);
});

test('the age of an edge’s feeds is shown, and what became of its usage events', async () => {
  const { text } = await bench.gateway.call('GET', '/metrics');
  for (const feed of ['catalog', 'rate_limits']) {
    const seconds = new RegExp(`^gateway_feed_silent_seconds{feed="${feed}"} (.+)$`, 'm').exec(text)?.[1];
    expect(Number(seconds)).toBeLessThan(2);
  }
  expect(text).toMatch(/^gateway_journal_refused_events_total 0$/m);
  expect(text).toMatch(/^gateway_journal_failed_calls_total \d+$/m);
  for (const [service, outbox] of [
    ['usage', 'charges'],
    ...['keys', 'models', 'billing'].map((each) => [each, 'audit_events']),
  ]) {
    expect(text).toMatch(new RegExp(`^gateway_outbox_waiting{service="${service}",outbox="${outbox}"} \\d+$`, 'm'));
  }
});

test('refusals for lack of resources and failed jobs are counted from 0, so that the first is an increase', async () => {
  const { text } = await bench.gateway.call('GET', '/metrics');
  for (const cause of ['time', 'memory', 'disk'])
    expect(text).toContain(`gateway_shed_requests_total{cause="${cause}"} 0`);
  expect(text).toContain('gateway_jobs_ended_total{outcome="failed"} 0');
});

test('each metric that README.md or services/README.md names is shown', async () => {
  const texts = await Promise.all(
    ['README.md', 'services/README.md'].map((name) => readFile(new URL(`../../${name}`, import.meta.url), 'utf8')),
  );
  const names = new Set(
    texts
      .join()
      .match(/(?<=`)gateway_\w+/g)!
      .filter((name) => name !== 'gateway_'),
  );
  const { text } = await bench.gateway.call('GET', '/metrics');
  expect(names.size).toBeGreaterThan(15);
  expect([...names].filter((name) => !text.includes(`# HELP ${name} `))).toEqual([]);
});

test('the running version is shown', async () => {
  const { text } = await bench.gateway.call('GET', '/metrics');
  const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'));
  expect(text).toMatch(new RegExp(`^gateway_build_info{version="${version}",revision="[0-9a-f]{12}"} 1$`, 'm'));
});

test('addresses that do not exist share one label, whatever clients make up', async () => {
  const before = await counted('unmatched', 404);
  for (const path of ['/v1/nothing', '/v1/nothing-else']) {
    expect((await bench.gateway.call('GET', path, bench.key.key)).status).toBe(404);
  }
  expect(await counted('unmatched', 404)).toBe(before + 2);
  expect((await bench.gateway.call('GET', '/metrics')).text).not.toContain('nothing');
});

/** A process without an edge, which reports its health at this port. */
const startWithoutEdge = (metricsPort: number, parts: Pick<GatewayParts, 'database' | 'bootstrap'>) =>
  startGateway(
    { ...bench.gateway.env, metricsPort },
    { services: ['auth'], edge: false, worker: false, ...parts },
    silentLogger,
  );

test('a process without an edge is ready from the end of its set-up until it is told to stop, and alive all the time', async () => {
  await using database = await createTestDatabase();
  const metricsPort = await freePort();
  const status = (path: string) => fetch(`http://127.0.0.1:${metricsPort}${path}`).then((answer) => answer.status);
  const setUp = Promise.withResolvers<{ catalogVersion: bigint }>();
  const closed = Promise.withResolvers<void>();
  const starting = startWithoutEdge(metricsPort, {
    database: Promise.resolve({ connection: database.url, close: () => closed.promise }),
    bootstrap: () => setUp.promise,
  });
  await waitFor(
    () =>
      status('/healthz')
        .then((code) => code === 200)
        .catch(() => false),
    { description: 'a listener' },
  );
  expect(await status('/readyz')).toBe(503);
  setUp.resolve({ catalogVersion: 0n });
  const gateway = await starting;
  expect(await status('/readyz')).toBe(200);
  const closing = gateway.close();
  expect([await status('/readyz'), await status('/healthz')]).toEqual([503, 200]);
  closed.resolve();
  await closing;
});

test('a process without an edge answers bad requests as an edge does', async () => {
  await using database = await createTestDatabase();
  const gateway = await startWithoutEdge(0, {
    database: Promise.resolve({ connection: database.url, close: async () => {} }),
    bootstrap: async () => ({ catalogVersion: 0n }),
  });
  /** Status, type and body of a response, and whether it has a request id. */
  const told = async (url: string, request: string) => {
    const [head, body] = (await rawRequest(url, request)).split('\r\n\r\n');
    const field = (name: string) => new RegExp(`\\r\\n${name}: ([^\\r]+)`, 'i').exec(head!)?.[1];
    const hasId = /^req_[0-9a-f]{32}$/.test(field('x-request-id') ?? '');
    return { status: head!.split('\r\n')[0], type: field('content-type'), allow: field('allow'), hasId, body };
  };
  try {
    for (const request of [
      'GET /nothing HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n',
      'POST /nothing HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 1\r\n\r\n{',
      'POST /nothing HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\ncontent-type: text/css\r\ncontent-length: 1\r\n\r\n{',
      'PUT /metrics HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n',
      'GET /%zz HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n',
      'GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n',
      'GET /healthz HTTP/1.1\r\nhost: gateway\r\nexpect: tea\r\n\r\n',
      'BREW /healthz HTTP/1.1\r\nhost: gateway\r\n\r\n',
      'CONNECT elsewhere.example:443 HTTP/1.1\r\nhost: gateway\r\n\r\n',
      'nothing of HTTP\r\n\r\n',
    ]) {
      const ofEdge = await told(bench.gateway.url, request);
      expect(ofEdge).toMatchObject({ hasId: true, body: expect.stringMatching(/^\{"error":\{"message":/) });
      expect(await told(gateway.healthUrl!, request), request).toEqual(ofEdge);
    }
  } finally {
    await gateway.close();
  }
});
