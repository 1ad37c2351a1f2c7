import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { namedBehaviours } from '../support/simulator/behaviour.ts';
import { type BehaviourName, startUpstreamSimulator, type UpstreamSimulator } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: InferenceBench;
const logLines: string[] = [];
let one: UpstreamSimulator;
let two: UpstreamSimulator;
const model = 'org/pair:latest';
const messages = [{ role: 'user' as const, content: 'Hi' }];

beforeAll(async () => {
  bench = await startInferenceBench({ logLines, env: { UPSTREAM_OF_ONE: 'the key of one' } });
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(async () => {
  await bench.renew();
  [one, two] = [await startUpstreamSimulator(), await startUpstreamSimulator()];
});
afterEach(async () => {
  await bench.admin('DELETE', `/models/${encodeURIComponent(model)}`);
  await one.close();
  await two.close();
});

/** Creates the model with its deployments, and waits until it is served. */
async function deploy(...deployments: { at: UpstreamSimulator; [setting: string]: unknown }[]): Promise<void> {
  await bench.admin('POST', '/models', { name: model, operations: ['chat_completions'] });
  for (const { at, ...settings } of deployments) {
    await bench.admin('POST', '/deployments', { model, base_url: at.url, upstream_model: 'sim-chat', ...settings });
  }
  await waitFor(async () => (await record()).deployments.length === deployments.length && isServed(), {
    description: 'the model to be served',
  });
  for (const { at } of deployments) at.reset();
}

const record = async () =>
  (await bench.gateway.call('GET', `/api/v1/models/${model}`, bench.session)).json as {
    is_serviceable: boolean;
    deployments: { status: string }[];
  };

const chat = (options: object = {}) => bench.client.chat.completions.create({ model, messages, ...options });
/** The status of one chat and the code of its error. */
const outcome = (options: object = {}): Promise<[number, string | null]> =>
  chat(options).then(
    () => [200, null],
    (error) => [error.status, error.code],
  );
const isServed = async (): Promise<boolean> => (await outcome())[0] === 200;
/** How many answers of the model's deployments have begun, by the metrics. */
const answersBegun = async (): Promise<number> => {
  const { text } = await bench.gateway.call('GET', '/metrics');
  const counts = text.matchAll(/^gateway_upstream_first_byte_seconds_count\{.*model="org\/pair:latest".*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
};

describe('one deployment', () => {
  test('that fails five times is left alone, fails clients at once, and recovers by itself within 30 s', async () => {
    await deploy({ at: one });
    one.otherwise('server-error');
    for (let time = 0; time < 5; time++) expect(await outcome()).toEqual([502, 'upstream_error']);
    const answer = await bench.gateway.call('POST', '/v1/chat/completions', bench.key.key, { model, messages });
    expect([answer.status, answer.json.error.code]).toEqual([503, 'model_unavailable']);
    const retryAfter = Number(answer.headers.get('retry-after'));
    expect(retryAfter).toBeGreaterThanOrEqual(5);
    expect(retryAfter).toBeLessThanOrEqual(15);
    expect(one.requests).toHaveLength(5);

    const hasFailed = async () => (await outcome()) && (await record()).deployments[0]!.status === 'Failed';
    await waitFor(hasFailed, { description: 'the status Failed' });
    expect((await record()).is_serviceable).toBe(false);

    one.otherwise('plain');
    await waitFor(isServed, { description: 'a recovery', timeoutMs: 30_000, intervalMs: 100 });
    await waitFor(async () => (await record()).deployments[0]!.status === 'Running', {
      description: 'the status Running',
      timeoutMs: 15_000,
    });
  });

  test('that has gone is noticed by probes alone, and so is its return', async () => {
    await deploy({ at: one });
    const { port } = one;
    await one.close();
    await waitFor(async () => !(await record()).is_serviceable, {
      description: 'a model that is not serviceable',
      timeoutMs: 30_000,
      intervalMs: 100,
    });
    one = await startUpstreamSimulator({ port });
    await waitFor(async () => (await record()).is_serviceable && isServed(), {
      description: 'the model to be back',
      timeoutMs: 30_000,
      intervalMs: 100,
    });
  });

  test('that is unreachable when added is Pending and gets no calls until it answers', async () => {
    const { url, port } = one;
    await one.close();
    await bench.admin('POST', '/models', { name: model, operations: ['chat_completions'] });
    const added = await bench.admin('POST', '/deployments', { model, base_url: url, upstream_model: 'sim-chat' });
    expect(added).toMatchObject({ status: 'Pending', status_reason: expect.stringMatching(/^a probe failed: .+/) });
    expect(await record()).toMatchObject({ is_serviceable: false, deployments: [{ status: 'Pending' }] });
    expect(await outcome()).toEqual([503, 'model_unavailable']);

    one = await startUpstreamSimulator({ port });
    await waitFor(async () => (await record()).deployments[0]!.status === 'Running', {
      description: 'the status Running',
      timeoutMs: 15_000,
    });
    expect((await bench.admin('GET', `/deployments?model=${encodeURIComponent(model)}`)).data).toMatchObject([
      { id: added.id, status_reason: null },
    ]);
    expect(await outcome()).toEqual([200, null]);
  });

  test('that is moved to another server gets no calls until that answers, and serves at once where it does', async () => {
    await deploy({ at: one });
    const [{ id }] = (await bench.admin('GET', `/deployments?model=${encodeURIComponent(model)}`)).data;
    const move = (to: object) => bench.admin('PATCH', `/deployments/${id}`, to);
    const { url, port } = two;
    await two.close();
    expect(await move({ base_url: url })).toMatchObject({
      status: 'Pending',
      status_reason: expect.stringMatching(/^a probe failed: .+/),
    });
    await waitFor(async () => (await outcome())[0] === 503, { description: 'the model not to be served' });
    expect(await outcome()).toEqual([503, 'model_unavailable']);
    expect(await move({ weight: 2 })).toMatchObject({ status: 'Pending' });
    expect(await move({ base_url: one.url })).toMatchObject({ status: 'Running', status_reason: null });
    await waitFor(isServed, { description: 'the model to be served' });
    expect(await move({ enabled: false, base_url: url })).toMatchObject({ status: 'Stopped', status_reason: null });
    two = await startUpstreamSimulator({ port });
  });

  test('that an import gives another key gets no calls until its server answers to that, and serves at once where it does', async () => {
    await deploy({ at: one });
    const models = bench.gateway.gateway.switchboard.client('bootstrap', ModelsService);
    const self = { contextValues: callerContext(serviceCaller('bootstrap')) };
    const importWith = async (secretReference: string, dryRun = false) => {
      const deployment = { baseUrl: one.url, upstreamModel: 'sim-chat', secretReference };
      await models.importCatalog({ models: [{ name: model, settings: {}, deployments: [deployment] }], dryRun }, self);
      return (await bench.admin('GET', `/deployments?model=${encodeURIComponent(model)}`)).data[0];
    };
    const { port } = one;
    await one.close();
    expect(await importWith('env:UPSTREAM_OF_ONE', true)).toMatchObject({ status: 'Running' });
    expect(await importWith('env:UPSTREAM_OF_ONE')).toMatchObject({
      status: 'Pending',
      status_reason: expect.stringMatching(/^a probe failed: .+/),
    });
    one = await startUpstreamSimulator({ port });
    expect(await importWith('')).toMatchObject({ status: 'Running', status_reason: null });
  });

  test('that is imported or enabled again is Pending as not yet probed, and then for what its probe found', async () => {
    const sockets: Socket[] = [];
    await using silent = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const deployment = { baseUrl: `http://127.0.0.1:${port}/v1`, upstreamModel: 'sim-chat' };
    const models = bench.gateway.gateway.switchboard.client('bootstrap', ModelsService);
    const self = { contextValues: callerContext(serviceCaller('bootstrap')) };
    await models.importCatalog({ models: [{ name: model, settings: {}, deployments: [deployment] }] }, self);
    const shown = async () => (await bench.admin('GET', `/deployments?model=${encodeURIComponent(model)}`)).data[0];
    const imported = await shown();
    expect(imported).toMatchObject({ status: 'Pending', status_reason: 'not probed yet' });

    await waitFor(() => sockets.length > 0, { description: 'the first probe' });
    for (const socket of sockets.splice(0)) socket.destroy();
    await waitFor(async () => (await shown()).status_reason !== 'not probed yet', { description: 'its outcome' });
    expect(await shown()).toMatchObject({
      status: 'Pending',
      status_reason: expect.stringMatching(/^a probe failed: .+/),
      status_changed_at: imported.status_changed_at,
    });

    await bench.admin('PATCH', `/deployments/${imported.id}`, { enabled: false });
    expect(await shown()).toMatchObject({ status: 'Stopped', status_reason: null });
    await bench.admin('PATCH', `/deployments/${imported.id}`, { enabled: true });
    expect(await shown()).toMatchObject({ status: 'Pending', status_reason: 'not probed yet' });
    for (const socket of sockets) socket.destroy();
  });

  test('that an operator stops while an edge reports its failures stays stopped', async () => {
    await deploy({ at: one });
    const shown = async () => (await bench.admin('GET', `/deployments?model=${encodeURIComponent(model)}`)).data[0];
    const { id } = await shown();
    const models = bench.gateway.gateway.switchboard.client('inference', ModelsService);
    const edge = { contextValues: callerContext(serviceCaller('inference')) };
    const failing = { deploymentId: id, failures: 9, successes: 1, consecutiveFailures: 2, lastError: 'refused' };
    const [other, watch] = [new pg.Client(bench.gateway.env.databaseUrl), new pg.Client(bench.gateway.env.databaseUrl)];
    await using closing = new AsyncDisposableStack();
    for (const client of [other, watch]) {
      closing.defer(() => client.end());
      await client.connect();
    }
    // The gateway's own report of what it has probed may wait too.
    const waiting = async (): Promise<number> => {
      const asked = `select count(*)::int from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and application_name = 'modelgateway-models'`;
      return (await watch.query(asked)).rows[0].count;
    };
    await other.query('begin');
    await other.query('select version from models.catalog_version for update');
    const stopped = bench.admin('PATCH', `/deployments/${id}`, { enabled: false });
    await waitFor(async () => (await waiting()) >= 1, { description: 'the stop to wait for another change' });
    const told = models.reportDeploymentHealth({ edgeId: uuidv7(), deployments: [failing] }, edge);
    await waitFor(async () => (await waiting()) >= 2, { description: 'the report to wait as well' });
    await other.query('rollback');
    await Promise.all([stopped, told]);
    expect(await shown()).toMatchObject({ status: 'Stopped', enabled: false });
    expect((await record()).is_serviceable).toBe(false);
  });

  const { status: _, ...overflow } = namedBehaviours['vllm-error'].instead;
  const overflowFrame = `data: ${JSON.stringify(overflow.body)}\n\n`;
  test.each([
    ['by their status', 'vllm-error', {}],
    ['in a body with the status of success', { instead: { ...overflow, status: 200 } }, {}],
    [
      'in the first frame of a stream',
      { instead: { status: 200, body: overflowFrame, contentType: 'text/event-stream' } },
      { stream: true },
    ],
  ] as const)('refusals of bad requests are no failures: %s', async (_how, behaviour, options) => {
    await deploy({ at: one });
    one.otherwise(behaviour);
    for (let time = 0; time < 8; time++) expect(await outcome(options)).toEqual([400, 'context_length_exceeded']);
    one.otherwise('plain');
    expect(await outcome()).toEqual([200, null]);
  });

  const [notSupported, flagged] = ['This server does not support tools.', 'Your input was flagged by moderation.'];
  test.each([
    [
      'what it does not support',
      501,
      { error: { code: 501, message: notSupported, type: 'not_supported_error' } },
      400,
    ],
    ['a content that it does not allow', 403, { error: { code: 403, message: flagged } }, 400],
    ['an endpoint that it does not have', 404, { detail: 'Not Found' }, 502],
    ['a method that it does not know', 405, { detail: 'Method Not Allowed' }, 502],
  ])('that refuses %s with %i continues to serve other calls', async (_what, status, body, told) => {
    await deploy({ at: one });
    one.otherwise({ instead: { status, body } });
    for (let time = 0; time < 8; time++) expect((await outcome())[0]).toBe(told);
    // As a body with status 200, from a server that reports success whatever it answers.
    const said = { error: { message: 'Not Found', ...('error' in body ? body.error : undefined), code: status } };
    one.otherwise({ instead: { status: 200, body: said } });
    for (let time = 0; time < 8; time++) expect((await outcome())[0]).toBe(told);
    const frame = [{ choices: [{ index: 0, delta: {} }] }, said]
      .map((json) => `data: ${JSON.stringify(json)}\n\n`)
      .join('');
    one.otherwise({ instead: { status: 200, body: frame, contentType: 'text/event-stream' } });
    for (let time = 0; time < 8; time++) {
      const stream = (await chat({ stream: true })) as unknown as AsyncIterable<unknown>;
      await expect(Array.fromAsync(stream)).rejects.toThrow();
    }
    one.otherwise('plain');
    expect(await outcome()).toEqual([200, null]);
  });

  test('that is full is not waited for', async () => {
    await deploy({ at: one, concurrency_limit: 2 });
    const released = Promise.withResolvers<void>();
    one.next({ hold: { until: released.promise } }, 2);
    const held = [chat(), chat()];
    await waitFor(() => one.requests.length === 2, { description: 'two calls at the upstream' });
    const answer = await bench.gateway.call('POST', '/v1/chat/completions', bench.key.key, { model, messages });
    expect([answer.status, answer.json.error.code]).toEqual([503, 'server_is_overloaded']);
    expect(answer.headers.get('retry-after')).toBe('5');
    released.resolve();
    await Promise.all(held);
    expect(await isServed()).toBe(true);
  });

  test('that has answered is free for the next call while a slow client still takes the answer', async () => {
    await deploy({ at: one, concurrency_limit: 1 });
    one.next('huge');
    const slow = await fetch(`${bench.gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${bench.key.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages }),
    });
    expect(slow.status).toBe(200);
    expect(await outcome()).toEqual([200, null]);
    await slow.body!.cancel();
  });

  test('that answers with a head and then nothing gets no credit for the clients that give up on it', async () => {
    await deploy({ at: one });
    one.otherwise('server-error');
    for (let time = 0; time < 4; time++) expect(await outcome()).toEqual([502, 'upstream_error']);
    one.next({ fault: { kind: 'hang', afterChunks: 0 } });
    const answered = await answersBegun();
    const leaving = new AbortController();
    const left = bench.client.chat.completions.create({ model, messages, stream: true }, { signal: leaving.signal });
    left.catch(() => {});
    await waitFor(async () => (await answersBegun()) > answered, { description: 'the head of the answer' });
    leaving.abort();
    await expect(left).rejects.toThrow('aborted');
    await bench.event({ error_code: 'client_closed_request' });
    expect(await outcome()).toEqual([502, 'upstream_error']);
    expect(await outcome()).toEqual([503, 'model_unavailable']);
  });

  test('may take only so long in total', async () => {
    await deploy({ at: one, total_timeout_ms: 300 });
    one.next('hang-before-head');
    const late = await bench.gateway.call('POST', '/v1/chat/completions', bench.key.key, { model, messages });
    expect(late.status).toBe(504);
    expect(late.json.error).toMatchObject({ type: 'server_error', param: null, code: 'upstream_timeout' });
    await bench.event({ success: false, error_code: 'upstream_timeout', cost_usd: 0 });
    one.next({ chunkDelayMs: 30, tokens: 1_000 });
    const stream = await bench.client.chat.completions.create({ model, messages, stream: true });
    await expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: 'upstream_timeout' });
    await one.waitFor((entry) => entry.outcome === 'client-left', { timeoutMs: 1_000 });
  });
});

test('a deployment gets no calls where its secret is missing, and operators are told so and of each refusal', async () => {
  await deploy({ at: one, secret_reference: 'env:UPSTREAM_OF_ONE' });
  const { id } = (await bench.admin('GET', `/deployments?model=${encodeURIComponent(model)}`)).data[0];
  const call = (gateway: TestGateway) =>
    gateway.call('POST', '/v1/chat/completions', bench.key.key, { model, messages });
  const served = one.requests.length;

  const brokenLogLines: string[] = [];
  const { databaseUrl } = bench.gateway.env;
  await using broken = await startTestGateway({ databaseUrl: databaseUrl!, logLines: brokenLogLines });
  const refused = await call(broken);
  expect([refused.status, refused.json.error.code]).toEqual([503, 'model_unavailable']);
  expect(one.requests).toHaveLength(served);
  const told = (lines: string[], msg: string) =>
    lines.map((line) => JSON.parse(line)).filter((line) => line.msg === msg && line.deployment === id);
  expect(told(brokenLogLines, 'a deployment gets no calls from this process')).toMatchObject([
    { model, fault: 'UPSTREAM_OF_ONE is not set' },
  ]);
  expect([...logLines, ...brokenLogLines].join('')).not.toContain('the key of one');
  await broken.gateway.close();

  one.otherwise('unauthorized');
  for (let time = 0; time < 3; time++) expect((await call(bench.gateway)).status).toBe(502);
  expect(told(logLines, 'a deployment failed')).toMatchObject([
    { model, err: expect.stringMatching(/^upstream answered 401: /) },
  ]);
  const changes = () =>
    told(logLines, 'the status of a deployment changed').filter(({ status }) => status === 'FAILED');
  // Its first ejection lasts a second, which a late report misses; each failed trial makes it longer.
  const hasFailed = () => call(bench.gateway).then(() => changes().length > 0);
  await waitFor(hasFailed, { description: 'the change to Failed' });
  expect(changes()[0]).toMatchObject({ model, reason: expect.stringContaining('401') });
});

test('operators see what an upstream says as it fails, whatever characters it contains', async () => {
  await deploy({ at: one });
  const shown = async () => (await bench.admin('GET', `/deployments?model=${encodeURIComponent(model)}`)).data[0];
  // A NUL, and a surrogate pair where the text is cut.
  const message = `out of\0memory ${'🙂'.repeat(400)}`;
  one.otherwise({ instead: { status: 500, body: { error: { message } } } });
  const hasFailed = async () => (await outcome()) && (await shown()).status === 'Failed';
  await waitFor(hasFailed, { description: 'the change to Failed' });
  expect((await shown()).status_reason).toMatch(/^upstream answered 500: out of memory 🙂/u);
});

describe('two deployments', () => {
  const failure = (code: number) => ({ error: { message: 'No.', code } });

  test.each(['server-error', 'overloaded', 'rate-limited', 'reset-before-head', 'html-502'] as BehaviourName[])(
    '%s of the first is answered by the second, unseen',
    async (fault) => {
      await deploy({ at: one, priority: 0 }, { at: two, priority: 1 });
      one.otherwise(fault);
      expect(await outcome()).toEqual([200, null]);
      // A kept connection that is reset at once looks as if it had been closed while idle, so its request is sent once more.
      if (fault === 'reset-before-head') expect(one.requests.length).toBeLessThanOrEqual(2);
      else expect(one.requests).toHaveLength(1);
      expect(two.requests).toHaveLength(1);
    },
  );

  test.each([
    ['500', 'server-error'],
    ['401', 'unauthorized'],
    ['402', { instead: { status: 402, body: { error: { message: 'Insufficient credits', code: 402 } } } }],
    ['403', { instead: { status: 403, body: { error: { message: 'Not from this region.' } } } }],
    ['404 for the model', { instead: { status: 404, body: { error: { message: 'The model `m` does not exist.' } } } }],
  ] as const)('a first that fails time and again, with %s, is no longer asked', async (_status, behaviour) => {
    await deploy({ at: one, priority: 0 }, { at: two, priority: 1 });
    one.otherwise(behaviour);
    for (let time = 0; time < 8; time++) expect(await outcome()).toEqual([200, null]);
    // The fifth failure ejects it.
    expect([one.requests.length, two.requests.length]).toEqual([5, 8]);
  });

  const overloadedWithin = { status: 200, body: namedBehaviours.overloaded.instead.body };
  const events = { contentType: 'text/event-stream', body: `data: ${JSON.stringify(overloadedWithin.body)}\n\n` };
  test.each([
    ['whole', {}, {}],
    ['in place of a stream', {}, { stream: true }],
    ['first in a stream', events, { stream: true }],
    ['first in a stream but for comments', { ...events, body: `: one\n\n: two\n\n${events.body}` }, { stream: true }],
  ])(
    'an error of the first in a body with the status of success is answered by the second, and only that is metered: %s',
    async (_how, written, options) => {
      await deploy({ at: one, priority: 0 }, { at: two, priority: 1 });
      await bench.renew();
      one.otherwise({ instead: { ...overloadedWithin, ...written } });
      two.otherwise({ headDelayMs: 50 });
      const answer = await chat(options);
      if ('stream' in options) await Array.fromAsync(answer as unknown as AsyncIterable<unknown>);
      expect([one.requests.length, two.requests.length]).toEqual([1, 1]);
      const event = await bench.event({ success: true });
      expect(event).toMatchObject({ status: 200, output_tokens: two.requests[0]!.generatedTokens });
      // The first deployment's error does not count as the first byte of the second's answer.
      expect(event.ttft_ms).toBeGreaterThanOrEqual(50);
      // It is a failure like any other, and the fifth ejects the deployment.
      for (let time = 0; time < 7; time++) expect(await outcome(options)).toEqual([200, null]);
      expect([one.requests.length, two.requests.length]).toEqual([5, 8]);
    },
  );

  test('one whose trial brings an error in a body with a success status is ejected again, for longer', async () => {
    await deploy({ at: one, priority: 0 }, { at: two, priority: 1 });
    one.otherwise({ instead: overloadedWithin });
    const served = async () => expect(await outcome()).toEqual([200, null]);
    for (let time = 0; time < 5; time++) await served();
    await waitFor(async () => served().then(() => one.requests.length === 6), { description: 'a trial' });
    for (let time = 0; time < 5; time++) await served();
    expect(one.requests).toHaveLength(6);
    one.otherwise('plain');
    await waitFor(async () => served().then(() => one.requests.length === 7), { description: 'a trial that succeeds' });
    await served();
    expect(one.requests).toHaveLength(8);
  });

  test('errors in bodies with a success status are retried elsewhere within the usual bounds, and refusals are not', async () => {
    await deploy({ at: one }, { at: two });
    const within = (body: unknown) => ({ instead: { status: 200, body } });
    const attempts = () => one.requests.length + two.requests.length;
    one.otherwise({ instead: overloadedWithin });
    two.otherwise(within(failure(429)));
    expect(await outcome()).toSatisfy(([status]) => status === 503 || status === 429);
    expect(attempts()).toBe(2);
    one.otherwise(within(failure(400)));
    two.otherwise(within(failure(400)));
    expect((await outcome())[0]).toBe(400);
    expect(attempts()).toBe(3);
    // Anything that is neither an answer nor an error is the upstream's fault.
    for (const at of [one, two]) at.otherwise({ instead: { status: 200, contentType: 'application/json', body: '{' } });
    expect((await outcome())[0]).toBe(502);
    expect(attempts()).toBe(5);
  });

  test('a first at its rate limit is left alone for as long as it asked, and then used again', async () => {
    await deploy({ at: one, priority: 0 }, { at: two, priority: 1 });
    one.next({ instead: { status: 429, headers: { 'retry-after': '1' }, body: {} } });
    for (let time = 0; time < 3; time++) expect(await outcome()).toEqual([200, null]);
    expect([one.requests.length, two.requests.length]).toEqual([1, 3]);
    await waitFor(async () => (await isServed()) && one.requests.length > 1, { description: 'the first in use again' });
  });

  test('a first whose error stalls in its body is replaced by the second within seconds', async () => {
    await deploy({ at: one, priority: 0 }, { at: two, priority: 1 });
    one.next({ ...namedBehaviours['server-error'], fault: { kind: 'hang', afterChunks: 0 } });
    const startedMs = performance.now();
    expect(await outcome()).toEqual([200, null]);
    // Less than any idle timeout.
    expect(performance.now() - startedMs).toBeLessThan(20_000);
    expect(one.requests[0]!.outcome).toBe('client-left');
  });

  test('attempts of a call that fail late leave the next one only the rest of their time', async () => {
    const limited = { total_timeout_ms: 3_000 };
    await deploy({ at: one, priority: 0, ...limited }, { at: two, priority: 1, ...limited });
    one.next({ ...namedBehaviours['server-error'], headDelayMs: 2_500 });
    two.next('hang-before-head');
    const startedMs = performance.now();
    expect(await outcome()).toEqual([504, 'upstream_timeout']);
    expect(performance.now() - startedMs).toBeLessThan(5_500);
    expect([one.requests.length, two.requests.length]).toEqual([1, 1]);
  });

  test('an attempt on a deployment with a longer time limit than the last gets its own limit, minus the time spent', async () => {
    await deploy({ at: one, priority: 0, total_timeout_ms: 2_000 }, { at: two, priority: 1 });
    one.next({ ...namedBehaviours['server-error'], headDelayMs: 300 });
    two.next({ headDelayMs: 2_500 });
    expect(await outcome()).toEqual([200, null]);
  });

  test('a disbelieved usage report is logged for the deployment that made it, though another one answered', async () => {
    await deploy({ at: one, priority: 0 }, { at: two, priority: 1 });
    const chunk = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [] };
    const usage = { prompt_tokens: 200_000, completion_tokens: 0, total_tokens: 200_000 };
    const events = [{ ...chunk, usage }, overloadedWithin.body].map((event) => `data: ${JSON.stringify(event)}\n\n`);
    one.next({ instead: { status: 200, contentType: 'text/event-stream', body: events.join('') } });
    const from = logLines.length;
    const stream = await bench.client.chat.completions.create({ model, messages, stream: true });
    await Array.fromAsync(stream);
    expect([one.requests.length, two.requests.length]).toEqual([1, 1]);
    const disbelieved = () =>
      logLines
        .slice(from)
        .map((line) => JSON.parse(line))
        .filter(({ msg }) => String(msg).includes('reported more usage than'));
    await waitFor(() => disbelieved().length > 0, { description: 'the line in the log' });
    const { data } = await bench.admin('GET', `/deployments?model=${encodeURIComponent(model)}`);
    const first = data.find(({ base_url: url }: { base_url: string }) => url === one.url);
    expect(disbelieved()).toMatchObject([{ model, deployment: first.id, reported: { inputTokens: 200_000 } }]);
  });

  test.each(['added', 'changed'])(
    'one that was %s while a call waited for the other answers it when that fails',
    async (event) => {
      await deploy(
        { at: one, concurrency_limit: 1 },
        ...(event === 'changed' ? [{ at: two, priority: 1, upstream_model: 'of-before' }] : []),
      );
      const failing = Promise.withResolvers<void>();
      one.next({ ...namedBehaviours['server-error'], hold: { until: failing.promise } });
      const waiting = outcome();
      await one.waitFor(() => true);
      const { data } = await bench.admin('GET', `/deployments?model=${encodeURIComponent(model)}`);
      const second = data.find(({ base_url: url }: { base_url: string }) => url === two.url);
      const settings = { upstream_model: 'sim-chat' };
      if (second === undefined) await bench.admin('POST', '/deployments', { model, base_url: two.url, ...settings });
      else await bench.admin('PATCH', `/deployments/${second.id}`, settings);
      await waitFor(async () => (await isServed()) && two.requests.at(-1)!.model === 'sim-chat', {
        description: 'the second to serve as it is now',
      });
      failing.resolve();
      expect(await waiting).toEqual([200, null]);
    },
  );

  test('nothing is retried after the first byte', async () => {
    await deploy({ at: one, priority: 0 }, { at: two, priority: 1 });
    one.next('reset-in-stream');
    const stream = await bench.client.chat.completions.create({ model, messages, stream: true });
    await expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: 'upstream_error' });
    expect(two.requests).toHaveLength(0);
  });

  test.each([
    ['by their status', 'rate-limited'],
    ['in bodies with the status of success', { instead: { status: 200, body: failure(429) } }],
  ] as const)('retries of errors %s add a fifth of the load at most, beyond the first ten', async (_how, limited) => {
    await deploy({ at: one }, { at: two });
    // At their rate limit they are not ejected, but of no use either.
    for (const at of [one, two]) at.otherwise(limited);
    const requests = 150;
    for (let time = 0; time < requests; time++) expect((await outcome())[0]).toBe(429);
    const attempts = one.requests.length + two.requests.length;
    expect(attempts).toBeGreaterThan(requests);
    expect(attempts).toBeLessThanOrEqual(requests * 1.2 + 10);
  });

  test('share the load by their weights', async () => {
    await deploy({ at: one, weight: 3 }, { at: two, weight: 1 });
    for (let time = 0; time < 40; time++) await chat();
    expect(Math.abs(one.requests.length - 30)).toBeLessThanOrEqual(1);
    expect(one.requests.length + two.requests.length).toBe(40);
  });
});
