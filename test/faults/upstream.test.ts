import { connect } from 'node:net';
import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { loadTokenizer } from '../../services/models/bytes/tokens.ts';
import type { TestGateway } from '../support/gateway.ts';
import { type InferenceBench, renewAfterSuccess, startInferenceBench } from '../support/inference.ts';
import { bothRefused, severalAddresses, useSeveralAddresses } from '../support/several-addresses.ts';
import type { BehaviourName, UpstreamSimulator } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: InferenceBench;
let gateway: TestGateway;
let simulator: UpstreamSimulator;
let client: OpenAI;

beforeAll(async () => {
  bench = await startInferenceBench();
  ({ gateway, simulator } = bench);
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(async () => {
  await renewAfterSuccess(bench);
  client = bench.client;
});

const messages = [{ role: 'user' as const, content: 'Hi' }];
const chat = (sim: BehaviourName) => client.chat.completions.create({ model: 'sim-chat', messages, metadata: { sim } });
const stream = (sim: BehaviourName, extra: object = {}) =>
  client.chat.completions.create({ model: 'sim-chat', messages, metadata: { sim }, stream: true, ...extra });

/** The refusal of a call that the simulator was told to refuse. */
const refusal = async () => {
  const error = await client.chat.completions.create({ model: 'sim-chat', messages }).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(OpenAI.APIError);
  return error as InstanceType<typeof OpenAI.APIError>;
};

/** The usage event of the last request, once it is stored. */
const lastEvent = (error_code: string | null) => bench.event({ error_code });

describe('an upstream that fails before its first byte', () => {
  test.each([
    ['reset-before-head', 502, 'upstream_error'],
    ['garbage-head', 502, 'upstream_error'],
    ['html-502', 502, 'upstream_error'],
    ['server-error', 502, 'upstream_error'],
    ['redirect', 502, 'upstream_error'],
    ['unauthorized', 502, 'upstream_error'],
    ['overloaded', 503, 'server_is_overloaded'],
    ['rate-limited', 429, 'rate_limit_exceeded'],
    ['vllm-error', 400, 'context_length_exceeded'],
    ['llama-error', 400, 'context_length_exceeded'],
  ] as const)(
    '%s is answered with %i %s, streamed or not, and metered as a failure without cost',
    async (sim, status, code) => {
      // Both at once, each with a handler for its failure from the start.
      const failures = [chat(sim), stream(sim)].map((attempt) => attempt.catch((thrown: unknown) => thrown));
      for (const failure of await Promise.all<unknown>(failures)) {
        const error = failure as InstanceType<typeof OpenAI.APIError>;
        expect(error).toBeInstanceOf(OpenAI.APIError);
        expect(error.status).toBe(status);
        expect(error.code).toBe(code);
        expect(Object.keys(error.error as object).sort()).toEqual(['code', 'message', 'param', 'type']);
        expect(error.requestID).toMatch(/^req_/);
        expect(JSON.stringify(error.error)).not.toContain('the-upstreams-own-key');
      }
      expect(await lastEvent(code)).toMatchObject({ success: false, cost_usd: 0, status });
      // A kept connection that is reset at once looks as if it had been closed while idle, so its request is sent once more.
      const requestsMax = sim === 'reset-before-head' ? 4 : 2;
      expect(simulator.requests.length).toSatisfy((count: number) => count >= 2 && count <= requestsMax);
    },
  );

  test('its Retry-After is passed on', async () => {
    await expect(chat('rate-limited')).rejects.toMatchObject({
      headers: expect.toSatisfy((headers: Headers) => headers.get('retry-after') === '7'),
    });
  });

  test.each([
    [503, '0', '5'],
    [503, '7', '7'],
    [503, '3600', '15'],
    [503, '1e300', '15'],
    [429, '0', '1'],
    [429, '1e300', '60'],
  ])('its %i with Retry-After %s tells the client to wait %s s', async (status, asked, told) => {
    simulator.next({ instead: { status, headers: { 'retry-after': asked }, body: {} } });
    const error = await refusal();
    expect([error.status, error.headers?.get('retry-after')]).toEqual([status, told]);
  });

  test.each([
    ['7 s after the upstream’s own time', 'Fri, 27 Nov 2026 13:00:07 GMT', '7'],
    ['already past', 'Fri, 27 Nov 2026 12:00:00 GMT', '1'],
    ['no date', 'Fri, 27 Nov 2026 13:00:07', '1'],
  ])('its 429 with Retry-After as a date that is %s tells the client to wait as long', async (_what, asked, told) => {
    const headers = { 'retry-after': asked, date: 'Fri, 27 Nov 2026 13:00:00 GMT' };
    simulator.next({ instead: { status: 429, headers, body: {} } });
    expect((await refusal()).headers?.get('retry-after')).toBe(told);
  });

  test.each([
    [409, 400, 'some_code'],
    [413, 413, 'request_too_large'],
    [415, 415, 'unsupported_content_type'],
    [422, 400, 'some_code'],
  ])('a refusal with %i reaches the client as %i %s', async (status, told, code) => {
    simulator.next({ instead: { status, body: { error: { message: 'No.', code: 'some_code', param: 'messages' } } } });
    expect(await refusal()).toMatchObject({ status: told, code, param: 'messages', type: 'invalid_request_error' });
  });

  test.each([
    ['longer than any', 'x'.repeat(300)],
    ['with a zero character', 'zero\0character'],
    ['of several words', 'not found'],
  ])('a code or param %s is not passed on, and the call is metered', async (_, text) => {
    simulator.next({ instead: { status: 400, body: { error: { message: 'No.', code: text, param: text } } } });
    expect(await refusal()).toMatchObject({ status: 400, code: null, param: null });
    expect(await lastEvent(null)).toMatchObject({ success: false, cost_usd: 0 });
  });

  test('a param is the name of the field, even if reported as one of the body', async () => {
    simulator.next({
      instead: { status: 400, body: { error: { message: 'No.', code: 400, param: 'body.messages' } } },
    });
    expect(await refusal()).toMatchObject({ status: 400, code: null, param: 'messages' });
  });

  const long = 'x'.repeat(30_000);
  test.each([
    [
      'FastAPI',
      422,
      {
        detail: [{ type: 'missing', loc: ['body', 'messages', 0, 'role'], msg: 'Field required' }, null, { msg: long }],
      },
      'messages.0.role: Field required',
    ],
    [
      'Mistral',
      422,
      { object: 'error', message: { detail: [{ loc: ['body', 'seed'], msg: 'Extra inputs are not permitted' }] } },
      'seed: Extra inputs are not permitted',
    ],
    ['Google', 400, [{ error: { code: 400, message: 'Unknown name.', status: 'INVALID_ARGUMENT' } }], 'Unknown name.'],
    ['LiteLLM', 422, { error: { message: 'ExceededBudget: End User=7.', type: 'budget_exceeded' } }, 'End User=7'],
  ])('a message in the way of %s is passed on, within bounds', async (_, status, body, said) => {
    simulator.next({ instead: { status, body } });
    const error = await refusal();
    expect(error.status).toBe(400);
    expect(error.message).toContain(said);
    expect(error.message.length).toBeLessThan(2_100);
  });

  test.each([
    ['Google', 400, [{ error: { code: 400, message: 'API key not valid. Please pass a valid API key.' } }]],
    ['Google', 400, [{ error: { code: 400, message: 'API key expired. Please renew the API key.' } }]],
    ['Google', 400, [{ error: { code: 400, message: 'User location is not supported for the API use.' } }]],
    ['xAI', 400, { code: 'Client specified an invalid argument', error: 'Incorrect API key provided: xa***ey.' }],
    ['Anthropic', 400, { error: { message: 'Your credit balance is too low to access the Anthropic API.' } }],
    ['OpenAI', 400, { error: { message: 'Your credit is used up.', code: 'billing_hard_limit_reached' } }],
    ['OpenAI', 429, { error: { message: 'Your credit is used up.', type: 'insufficient_quota', code: null } }],
    ['OpenAI', 429, { error: { type: 'rate_limit_error', code: 'project_spend_limit_exceeded' } }],
    ['Moonshot', 429, { error: { message: 'Recharge your credit.', type: 'exceeded_current_quota_error' } }],
    ['Zhipu', 429, { error: { message: 'Insufficient balance: recharge your credit.', code: '1113' } }],
    ['Alibaba', 400, { error: { message: 'See that your key is in good standing.', code: 'Arrearage' } }],
    ['Groq', 400, { error: { message: 'The organization of your key.', code: 'organization_restricted' } }],
    [
      'LiteLLM',
      422,
      { error: { message: 'Budget has been exceeded! Current cost: 9.1', type: 'budget_exceeded', code: '422' } },
    ],
    ['LiteLLM', 429, { error: { message: 'ExceededBudget: User=7 over budget.', type: 'budget_exceeded' } }],
  ])('a complaint about our own account, such as %s with %i, is not blamed on the client', async (_, status, body) => {
    simulator.next({ instead: { status, body } });
    const error = await refusal();
    expect(error).toMatchObject({ status: 502, code: 'upstream_error' });
    expect(error.message).not.toMatch(/key|location|credit|budget/i);
  });

  test('neither its key nor its address is revealed, whatever it says about them', async () => {
    const { host, hostname } = new URL(simulator.url);
    const said = `Bad key the-upstreams-own-key for ${simulator.url}/chat/completions at ${host}, which is ${hostname}.`;
    simulator.next({ instead: { status: 400, body: { error: { message: said, param: 'the-upstreams-own-key' } } } });
    const { error } = await refusal();
    expect(JSON.stringify(error)).toContain('Bad key [redacted] for [redacted]/chat/completions');
    for (const secret of ['the-upstreams-own-key', host, hostname]) expect(JSON.stringify(error)).not.toContain(secret);
  });

  test('nor are they when its JSON escapes letters of them, as PHP does with each slash', async () => {
    const plain = JSON.stringify({ error: { message: `Bad key the-upstreams-own-key for ${simulator.url}.` } });
    const body = plain.replaceAll('-', '\\u002d').replace('127.', '127\\u002e').replaceAll('/', '\\/');
    simulator.next({ instead: { status: 400, contentType: 'application/json', body } });
    expect((await refusal()).error).toMatchObject({ message: 'Bad key [redacted] for [redacted].' });
  });

  test('its error is read if a byte order mark is before it', async () => {
    const body = `\ufeff${JSON.stringify({ error: { message: 'No such voice.', param: 'voice' } })}`;
    simulator.next({ instead: { status: 400, contentType: 'application/json; charset=utf-8', body } });
    expect((await refusal()).error).toMatchObject({ message: 'No such voice.', param: 'voice' });
  });

  test('a redirect is not followed', async () => {
    await expect(chat('redirect')).rejects.toMatchObject({ status: 502 });
    expect(simulator.requests).toHaveLength(1);
  });

  test('an overflow says "maximum context length", by which clients recognize it', async () => {
    await expect(chat('llama-error')).rejects.toThrow(/maximum context length/i);
  });

  test('a client that retries does not notice an overloaded upstream that recovers', async () => {
    simulator.next('overloaded');
    const retrying = gateway.openai(bench.key.key, { maxRetries: 1 });
    const completion = await retrying.chat.completions.create({ model: 'sim-chat', messages });
    expect(completion.choices).toHaveLength(1);
    expect(simulator.requests).toHaveLength(2);
  });
});

describe('an answer that breaks', () => {
  test.each([
    [
      'because it is not an answer of its operation',
      { instead: { status: 200, contentType: 'application/json', body: 'no JSON' } },
    ],
    ['because it is cut', { fault: { kind: 'cut', afterChunks: 1 } }],
  ] as const)('%s is metered with the status that its client was sent', async (_, behaviour) => {
    simulator.next(behaviour);
    expect(await refusal()).toMatchObject({ status: 502, code: 'upstream_error' });
    expect(await lastEvent('upstream_error')).toMatchObject({ success: false, cost_usd: 0, status: 502 });
  });

  test.each([
    ['before its head', { fault: { kind: 'hang' } }],
    ['within', { fault: { kind: 'hang', afterChunks: 1 } }],
  ] as const)('%s since its client left is metered with 499', async (_, behaviour) => {
    simulator.next(behaviour);
    const leaving = new AbortController();
    const call = client.chat.completions.create({ model: 'sim-chat', messages }, { signal: leaving.signal });
    await simulator.waitFor((entry) => entry.outcome === 'running');
    leaving.abort();
    await expect(call).rejects.toThrow();
    expect(await lastEvent('client_closed_request')).toMatchObject({ success: false, status: 499 });
  });
});

test('speech that breaks off does not look whole to HTTP/1.0 clients, such as some proxies', async () => {
  const { hostname, port } = new URL(gateway.url);
  const body = JSON.stringify({ model: 'sim-speech', voice: 'alloy', input: 'Hi '.repeat(100) });
  simulator.next({ fault: { kind: 'cut', afterChunks: 1 } });
  const proxy = connect(Number(port), hostname).setEncoding('latin1');
  const head = ['POST /v1/audio/speech HTTP/1.0', `authorization: Bearer ${bench.key.key}`];
  head.push('content-type: application/json', `content-length: ${body.length}`);
  proxy.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  let answer = '';
  const read = async () => {
    for await (const piece of proxy) answer += piece;
  };
  await expect(read()).rejects.toMatchObject({ code: 'ECONNRESET' });
  expect(answer).toMatch(/^HTTP\/1.1 200 /);
  await lastEvent('upstream_error');
});

test('an answer with a byte order mark before it is read, and charged as reported', async () => {
  const choices = [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }];
  const usage = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };
  const body = `\ufeff${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'sim', choices, usage })}`;
  simulator.next({ instead: { status: 200, contentType: 'application/json; charset=utf-8', body } });
  const answer = await client.chat.completions.create({ model: 'sim-chat', messages });
  expect(answer).toMatchObject({ choices, usage });
  expect(await lastEvent(null)).toMatchObject({ input_tokens: 7, output_tokens: 3 });
});

test('a stream whose client stops reading waits for it, and is metered with 499 when that client leaves', async () => {
  simulator.next({ tokens: 500_000 });
  const { hostname, port } = new URL(gateway.url);
  const leaving = connect(Number(port), hostname);
  const body = JSON.stringify({ model: 'sim-chat', messages, stream: true });
  const head = ['POST /v1/chat/completions HTTP/1.1', 'host: gateway', 'content-type: application/json'];
  head.push(`authorization: Bearer ${bench.key.key}`, `content-length: ${body.length}`);
  leaving.once('data', () => leaving.pause());
  leaving.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  const asked = await simulator.waitFor(({ chunks }) => chunks > 0);
  let bytesRead = 0;
  const isFull = (): boolean => {
    const before = bytesRead;
    bytesRead = leaving.bytesRead;
    return bytesRead > 0 && bytesRead === before;
  };
  await waitFor(isFull, { description: 'the sockets in between to be full', intervalMs: 100 });
  leaving.destroy();
  expect(await lastEvent('client_closed_request')).toMatchObject({ success: false, status: 499 });
  await waitFor(() => asked.outcome === 'client-left', { description: 'the upstream to be let go' });
});

test('a stream whose client leaves before its usage is charged the words that it brought, however many came in one event', async () => {
  // Some upstreams send a paragraph per event.
  simulator.next({ paddingBytes: 8_000, fault: { kind: 'hang', afterChunks: 16 } });
  const answer = await client.chat.completions.create({ model: 'sim-chat', messages, stream: true });
  let words = '';
  for await (const { choices } of answer) {
    words += choices[0]?.delta.content ?? '';
    if (words.length > 8_000) break;
  }
  const { output_tokens } = await lastEvent('client_closed_request');
  expect(Number(output_tokens)).toBeGreaterThanOrEqual(await (await loadTokenizer()).count(words));
});

describe('a stream that breaks', () => {
  test.each([
    'reset-in-stream',
    'cut-in-stream',
    'garbage-in-stream',
    'early-end',
    'bad-sse',
    'error-line',
    'half-close',
  ] as const)('%s ends with an error frame and no [DONE]', async (sim) => {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${bench.key.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sim-chat', messages, stream: true, metadata: { sim } }),
    });
    const text = await response.text();
    expect(response.status).toBe(200);
    expect(text).not.toContain('[DONE]');
    const last = JSON.parse(
      text
        .trimEnd()
        .split('\n\n')
        .at(-1)!
        .replace(/^data: /, ''),
    );
    expect(last).toEqual({
      error: { message: expect.any(String), type: 'server_error', param: null, code: 'upstream_error' },
    });
  });

  test('the client raises an error with a code, and what arrived is metered', async () => {
    let received = 0;
    const reading = async () => {
      for await (const chunk of await stream('reset-in-stream')) if (chunk.choices[0]?.delta.content) received += 1;
    };
    await expect(reading()).rejects.toMatchObject({ code: 'upstream_error' });
    const event = await lastEvent('upstream_error');
    expect(event.status).toBe(200);
    expect(event.output_tokens).toBeGreaterThanOrEqual(received);
    expect(event.output_tokens).toBeLessThanOrEqual(simulator.requests[0]!.generatedTokens);
  });
});

describe('an error within a stream', () => {
  const said = 'Bad key the-upstreams-own-key.';
  const frames = [
    ['an event of that name', `event: error\ndata: ${JSON.stringify({ message: said })}\n\n`],
    ['an event of that name that is no JSON', `event: error\ndata: ${said}\n\n`],
    ['an event of that type', `data: ${JSON.stringify({ type: 'error', message: said })}\n\n`],
    ['flat, as vLLM writes it', `data: ${JSON.stringify({ object: 'error', message: said, code: 500 })}\n\n`],
    ['a line, as llama.cpp writes it', `error: ${JSON.stringify({ message: said })}\n\n`],
    ['a member', `data: ${JSON.stringify({ error: { message: said } })}\n\n`],
  ] as const;
  const streams = [
    [
      'chat',
      '/chat/completions',
      { model: 'sim-chat', messages, stream: true },
      { choices: [{ delta: { content: 'Hi' } }] },
    ],
    [
      'images',
      '/images/generations',
      { model: 'sim-image', prompt: 'A cat', stream: true },
      { type: 'image_generation.partial_image', b64_json: 'AAAA' },
    ],
    [
      'speech',
      '/audio/speech',
      { model: 'sim-speech', voice: 'alloy', input: 'Hi', stream_format: 'sse' },
      { type: 'speech.audio.delta', audio: 'AAAA' },
    ],
  ] as const;
  const cases = streams.flatMap((stream) => frames.map((frame) => [...frame, ...stream] as const));

  test.each(cases)('that is %s (%j) of %s ends it with an error in the gateway’s words', async (...given) => {
    const [, frame, , path, body, piece] = given;
    // A success in between keeps the breaker closed.
    await gateway.call('POST', `/v1${path}`, bench.key.key, body);
    const events = `data: ${JSON.stringify(piece)}\n\n${frame}`;
    simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body: events } });
    const answer = await gateway.call('POST', `/v1${path}`, bench.key.key, body);
    expect(answer.status).toBe(200);
    expect(answer.text).not.toContain('the-upstreams-own-key');
    expect(
      answer.text
        .trimEnd()
        .split('\n\n')
        .map((one) => 'error' in JSON.parse(one.slice(6))),
    ).toEqual([false, true]);
    await lastEvent('upstream_error');
  });
});

describe('a stream of events whose connection stays open', () => {
  const events = (...data: unknown[]) => data.map((one) => `data: ${JSON.stringify(one)}\n\n`).join('');
  /** Sends the text, and then nothing more. */
  const andHangs = (text: string) =>
    simulator.next({
      instead: { status: 200, contentType: 'text/event-stream', body: text + ':'.repeat(text.length) },
      fault: { kind: 'hang' as const, afterChunks: 0 },
    });
  const images = { model: 'sim-image', prompt: 'A cat', stream: true, n: 2 };
  const completed = { type: 'image_generation.completed', b64_json: 'AAAA' };
  const transcription = () => {
    const form = new FormData();
    form.set('file', new File([Buffer.alloc(100)], 'a.wav'));
    form.set('model', 'sim-transcribe');
    form.set('stream', 'true');
    return form;
  };
  const chunk = { object: 'transcription.chunk', choices: [{ delta: { content: 'Hi' }, finish_reason: 'stop' }] };

  test.each([
    ['both images', '/images/generations', () => images, events(completed, completed)],
    [
      'the speech',
      '/audio/speech',
      () => ({ model: 'sim-speech', voice: 'alloy', input: 'Hi', stream_format: 'sse' }),
      events({ type: 'speech.audio.delta', audio: 'AAAA' }, { type: 'speech.audio.done' }),
    ],
    [
      'the transcript',
      '/audio/transcriptions',
      transcription,
      events({ type: 'transcript.text.delta', delta: 'Hi' }, { type: 'transcript.text.done', text: 'Hi' }),
    ],
    ['the [DONE] of vLLM', '/audio/transcriptions', transcription, `${events(chunk)}data: [DONE]\n\n`],
  ])('is complete after %s', async (_what, path, body, text) => {
    andHangs(text);
    const answer = await gateway.call('POST', `/v1${path}`, bench.key.key, body());
    expect(answer.text).toContain(text.includes('DONE') ? '"transcript.text.done"' : text);
    expect(answer.text).not.toContain('"error"');
    await bench.event({ success: true });
    await simulator.waitFor((entry) => entry.outcome === 'client-left');
  });

  test('is broken off at an overlong line', async () => {
    andHangs('x'.repeat(5 * 1024 * 1024));
    const answer = await gateway.call('POST', '/v1/audio/transcriptions', bench.key.key, transcription());
    expect([answer.status, answer.json.error.code]).toEqual([502, 'upstream_error']);
  });
});

test('operators who register a server that is away read why, whichever of its addresses was tried', async () => {
  using _ = useSeveralAddresses();
  const base_url = `http://${severalAddresses}:1/v1`;
  const { status, json } = await bench.gateway.call('POST', '/api/v1/admin/upstreams', bench.session, { base_url });
  expect(status).toBe(502);
  expect(json.error.message).toMatch(bothRefused);
});
