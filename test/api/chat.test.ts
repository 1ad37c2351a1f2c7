import OpenAI from 'openai';
import { makeParseableResponseFormat } from 'openai/lib/parser';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type InferenceBench, startInferenceBench, tools } from '../support/inference.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: InferenceBench;
/** How far the gateway's clock is ahead, so that waiting out a silence takes no real time. */
let aheadMs = 0;
const clock = { now: Date.now, monotonic: () => performance.now() + aheadMs };
beforeAll(async () => {
  bench = await startInferenceBench({ clock });
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.renew());

const messages = [{ role: 'user' as const, content: 'Hi' }];

test('a byte order mark, which editors on Windows put before a file, is no fault, and does not reach the upstream', async () => {
  const { gateway, simulator, key } = bench;
  const text = JSON.stringify({ model: 'sim-chat', messages });
  const answer = await gateway.call('POST', '/v1/chat/completions', key.key, `\ufeff${text}`);
  expect(answer.status, answer.text).toBe(200);
  expect(simulator.requests[0]!.body.toString('utf8')).toBe(text);
});

describe('the helpers of the unmodified client', () => {
  test('tool calls stream', async () => {
    const stream = bench.client.chat.completions.stream({
      model: 'sandbox-chat',
      messages: [{ role: 'user', content: 'What is the weather in Oslo?' }],
      tools,
      tool_choice: 'required',
    });
    const completion = await stream.finalChatCompletion();
    const [call] = completion.choices[0]!.message.tool_calls!;
    expect(completion.choices[0]!.finish_reason).toBe('tool_calls');
    expect(JSON.parse((call as { function: { arguments: string } }).function.arguments)).toHaveProperty('city');
  });

  test('.parse() reads an answer by its schema', async () => {
    const schema = {
      type: 'object',
      properties: { name: { type: 'string' }, age: { type: 'integer' } },
      required: ['name', 'age'],
      additionalProperties: false,
    };
    const completion = await bench.client.chat.completions.parse({
      model: 'sandbox-chat',
      messages,
      response_format: makeParseableResponseFormat(
        { type: 'json_schema', json_schema: { name: 'person', strict: true, schema } },
        (content) => JSON.parse(content) as { name: string; age: number },
      ),
    });
    expect(completion.choices[0]!.message.parsed).toEqual({ name: expect.any(String), age: expect.any(Number) });
  });

  test('n = 2 gives two choices, streamed too', async () => {
    const whole = await bench.client.chat.completions.create({ model: 'sim-chat', messages, n: 2 });
    expect(whole.choices.map(({ index }) => index)).toEqual([0, 1]);
    const stream = await bench.client.chat.completions.create({ model: 'sim-chat', messages, n: 2, stream: true });
    const indexes = (await Array.fromAsync(stream)).flatMap(({ choices }) => choices.map(({ index }) => index));
    expect(new Set(indexes)).toEqual(new Set([0, 1]));
  });

  test('streams work with an upstream that refuses stream_options, which is asked without them from then on', async () => {
    const { client, simulator } = bench;
    const model = 'strict/chat';
    await bench.admin('POST', '/models', { name: model, operations: ['chat_completions'] });
    await bench.admin('POST', '/deployments', { model, base_url: simulator.url });
    const detail = [
      { type: 'extra_forbidden', loc: ['body', 'stream_options'], msg: 'Extra inputs are not permitted' },
    ];
    simulator.otherwise(({ json }) =>
      json?.stream_options === undefined ? { tokens: 5 } : { instead: { status: 422, body: { message: { detail } } } },
    );
    const stream = async () => Array.fromAsync(await client.chat.completions.create({ model, messages, stream: true }));
    await waitFor(() => client.models.retrieve(model), { description: 'the model to be served' });
    for (const answer of await Promise.all([stream(), stream(), stream()])) {
      expect(answer.at(-1)!.choices[0]!.finish_reason).toBe('stop');
      expect(answer.every(({ usage }) => usage == null)).toBe(true);
    }
    // The gateway counts words itself, and not as the simulator counts tokens.
    expect((await bench.event({ success: true })).output_tokens).toBeGreaterThan(4);

    simulator.reset();
    simulator.otherwise({ tokens: 5 });
    await stream();
    expect(simulator.requests.map(({ json }) => json!.stream_options)).toEqual([undefined]);
    const asking = await client.chat.completions.create({
      model,
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    expect((await Array.fromAsync(asking)).at(-1)!.usage!.completion_tokens).toBeGreaterThan(4);
    expect(simulator.requests[1]!.json!.stream_options).toBeUndefined();
    // A client that sets more options itself gets the refusal.
    simulator.next({ instead: { status: 422, body: { message: { detail } } } });
    const stream_options = { include_usage: true, include_obfuscation: false };
    const askingForMore = client.chat.completions.create({ model, messages, stream: true, stream_options });
    await expect(askingForMore).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('stream_options: Extra inputs are not permitted'),
    });
  });

  test('an upstream that quotes stream_options in an unrelated refusal is still asked for the usage', async () => {
    const { client, simulator } = bench;
    const detail = [{ loc: ['body', 'messages'], msg: 'List is empty', input: { stream_options: {} } }];
    simulator.next({ instead: { status: 422, body: { detail } } }, 2);
    const ask = () => client.chat.completions.create({ model: 'sim-chat', messages, stream: true });
    await expect(ask()).rejects.toMatchObject({ status: 400, message: expect.stringContaining('List is empty') });
    await Array.fromAsync(await ask());
    expect(simulator.requests.map(({ json }) => json!.stream_options)).toEqual([
      { include_usage: true },
      undefined,
      { include_usage: true },
    ]);
  });

  test('an upstream that refuses stream_options in a body with a success status is asked without them from then on', async () => {
    const { client, simulator } = bench;
    const model = 'strict/whole';
    await bench.admin('POST', '/models', { name: model, operations: ['chat_completions'] });
    await bench.admin('POST', '/deployments', { model, base_url: simulator.url, upstream_model: 'sim-chat' });
    const refusalOf = (message: string) => ({
      instead: { status: 200, body: { error: { message, type: 'invalid_request_error', code: 400 } } },
    });
    const stream = async () => Array.fromAsync(await client.chat.completions.create({ model, messages, stream: true }));
    await waitFor(() => client.models.retrieve(model), { description: 'the model to be served' });
    // A repeated refusal shows that it was not about the stream_options it quotes.
    simulator.next(refusalOf('No messages in {"stream_options":{}}'), 2);
    await expect(stream()).rejects.toMatchObject({ status: 400, message: expect.stringContaining('No messages') });
    simulator.otherwise(({ json }) =>
      json?.stream_options === undefined ? { whole: true, tokens: 5 } : refusalOf('Unknown field: stream_options'),
    );
    expect((await stream())[0]!.choices[0]!.finish_reason).toBe('stop');
    await stream();
    expect(simulator.requests.map(({ json }) => json!.stream_options !== undefined)).toEqual([
      ...[true, false],
      ...[true, false],
      false,
    ]);
  });

  test('abort() reaches the upstream within a second, streamed or not', async () => {
    const { client, simulator } = bench;
    simulator.next({ chunkDelayMs: 20, tokens: 1_000 });
    const stream = await client.chat.completions.create({ model: 'sim-chat', messages, stream: true });
    for await (const _ of stream) break;
    await simulator.waitFor((entry) => entry.outcome === 'client-left', { timeoutMs: 1_000 });

    simulator.next('hang-before-head');
    const aborting = new AbortController();
    const call = client.chat.completions.create({ model: 'sim-chat', messages }, { signal: aborting.signal });
    await waitFor(() => simulator.requests.length === 2, { description: 'the second request' });
    aborting.abort();
    await expect(call).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    await waitFor(() => simulator.requests[1]?.outcome === 'client-left', {
      description: 'the upstream to see it',
      timeoutMs: 1_000,
    });
  });

  test('30 seconds of silence add no chunk, and comments keep the stream open', async () => {
    const released = Promise.withResolvers<void>();
    bench.simulator.next({ hold: { until: released.promise, afterChunks: 3 }, tokens: 4 });
    // Watches the bytes as they arrive: the silence begins with the first content, and each half of it ends with a comment.
    const watch = async (body: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> => {
      let text = '';
      let skips = 0;
      for await (const piece of body.pipeThrough<string>(new TextDecoderStream())) {
        text += piece;
        const comments = text.split(': keep-alive\n\n').length - 1;
        if (comments === 2) released.resolve();
        else if (skips === comments && text.includes('"content":"')) {
          aheadMs += 15_000;
          skips += 1;
        }
      }
      expect(text).toMatch(/data: \[DONE\]\n\n$/);
    };
    let watching = Promise.resolve();
    const client = bench.gateway.openai(bench.key.key).withOptions({
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        const [mine, clients] = response.body!.tee();
        watching = watch(mine as ReadableStream<Uint8Array<ArrayBuffer>>);
        return new Response(clients, response);
      },
    });
    const stream = await client.chat.completions.create({ model: 'sim-chat', messages, stream: true });
    const chunks = await Array.fromAsync(stream);
    await watching;
    const [truth] = bench.simulator.requests;
    // Everything the upstream said, except [DONE] and the usage that the client did not ask for.
    expect(chunks.length).toBe(truth!.chunks - 2);
    expect(chunks.map(({ choices }) => choices[0]!.delta.content ?? '').join('')).toBe(truth!.text);
  });
});

describe('refusals, as the unmodified client sees them', () => {
  const chat = (client: OpenAI) => client.chat.completions.create({ model: 'sim-chat', messages });

  test('an expired key', async () => {
    const expires_at = new Date(Date.now() + 600).toISOString();
    const { key } = await bench.gateway.createKey(bench.session, { expires_at });
    await waitFor(
      () =>
        chat(bench.gateway.openai(key)).then(
          () => false,
          (error) => error instanceof OpenAI.AuthenticationError && error.code === 'expired_api_key',
        ),
      { description: 'the expiry' },
    );
  });

  test('a rate limit is waited out by a client that retries', async () => {
    const path = `/api/v1/admin/keys/${bench.key.id}/rate-limits`;
    const set = await bench.gateway.call('PUT', path, bench.session, { requests_per_minute: 60 });
    expect(set.status).toBeLessThan(300);
    const outcome = () =>
      chat(bench.client).then(
        () => null,
        (error) => error,
      );
    // Many at once: one by one, they might not arrive faster than the limit allows.
    const limited = await waitFor(
      async () => (await Promise.all(Array.from({ length: 30 }, outcome))).find((error) => error !== null),
      { description: 'the limit', intervalMs: 0 },
    );
    expect(limited).toMatchObject({ status: 429, code: 'rate_limit_exceeded', type: 'requests' });
    expect(Number(limited.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    const statuses: number[] = [];
    const retrying = bench.gateway.openai(bench.key.key, { maxRetries: 1 }).withOptions({
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        statuses.push(response.status);
        return response;
      },
    });
    const { data, response } = await waitFor(
      async () => {
        await Promise.all(Array.from({ length: 10 }, outcome));
        statuses.length = 0;
        const asked = bench.simulator.requests.length;
        const answer = await retrying.chat.completions.create({ model: 'sim-chat', messages }).withResponse();
        expect(bench.simulator.requests.length).toBe(asked + 1);
        // On a busy machine the limit may have passed in the meantime.
        return statuses.length === 2 && answer;
      },
      { description: 'a call that is limited at first', intervalMs: 0 },
    );
    expect(statuses).toEqual([429, 200]);
    expect(data.choices).toHaveLength(1);
    expect(response.headers.get('x-ratelimit-limit-requests')).toBe('60');
    expect(response.headers.get('x-ratelimit-reset-requests')).toMatch(/^(\d+h)?(\d+m)?[\d.]+m?s$/);
  });
});

describe('browsers', () => {
  test('may call from other origins with the client’s own headers, and read ours', async () => {
    const own = ['x-stainless-lang', 'x-stainless-retry-count', 'openai-organization', 'openai-project'];
    const preflight = await fetch(`${bench.gateway.url}/v1/chat/completions`, {
      method: 'OPTIONS',
      headers: {
        origin: 'https://app.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': `authorization,content-type,${own.join(',')}`,
      },
    });
    expect(preflight.status).toBe(200);
    const allowed = preflight.headers.get('access-control-allow-headers')!.toLowerCase().split(/, */);
    expect(allowed).toEqual(expect.arrayContaining(['authorization', 'content-type', ...own]));
    const answer = await fetch(`${bench.gateway.url}/v1/models`, {
      headers: { origin: 'https://app.example', authorization: `Bearer ${bench.key.key}` },
    });
    const limits = ['limit', 'remaining', 'reset'].flatMap((what) =>
      ['requests', 'tokens'].map((unit) => `x-ratelimit-${what}-${unit}`),
    );
    for (const name of ['x-request-id', 'retry-after', 'x-should-retry', 'deprecation', 'sunset', 'link', ...limits]) {
      expect(answer.headers.get('access-control-expose-headers')).toContain(name);
    }
  });

  const post = (path: string, body: object, headers: Record<string, string>) =>
    fetch(bench.gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${bench.key.key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });

  test.each([
    ['a stream', '/v1/chat/completions', { model: 'sim-chat', messages, stream: true }, 200],
    ['a refusal', '/v1/chat/completions', { model: 'nobody', messages }, 404],
    ['an unknown URL', '/v1/chat', {}, 404],
  ])('may read %s from other origins too; programs see no CORS headers', async (_what, path, body, status) => {
    const answer = await post(path, body, { origin: 'https://app.example' });
    expect(answer.status).toBe(status);
    expect(answer.headers.get('access-control-allow-origin')).toBe('*');
    expect(answer.headers.get('access-control-expose-headers')).toContain('x-request-id');
    await answer.text();
    const toProgram = await post(path, body, {});
    expect(toProgram.headers.has('access-control-allow-origin')).toBe(false);
    await toProgram.text();
  });
});
