import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type InferenceBench, renewAfterSuccess, startInferenceBench } from '../support/inference.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: InferenceBench;
const logLines: string[] = [];
beforeAll(async () => {
  bench = await startInferenceBench({ logLines });
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => renewAfterSuccess(bench));

const messages = [{ role: 'user' as const, content: 'Hi' }];

/** The usage event of the last request, once it is stored. */
const lastEvent = (error_code: string | null) => bench.event({ error_code });

describe('a refusal under a success status', () => {
  const said = 'Unknown field `seed` (key the-upstreams-own-key).';
  const told = {
    message: expect.stringContaining('Unknown field `seed` (key [redacted])'),
    type: 'invalid_request_error',
  };
  const body = { model: 'sim-chat', messages };
  const post = (stream: boolean) =>
    bench.gateway.call('POST', '/v1/chat/completions', bench.key.key, { ...body, ...(stream && { stream }) });
  const refusals = [
    ['vLLM', { object: 'error', message: said, type: 'BadRequestError', param: 'seed', code: 400 }, null],
    ['LiteLLM', { error: { message: said, type: 'invalid_request_error', param: 'seed', code: '400' } }, null],
    ['OpenAI', { error: { message: said, type: 'invalid_request_error', param: 'seed', code: 'unknown' } }, 'unknown'],
  ] as const;

  test.each(refusals)(
    'of %s is answered with the status 400: whole, or as the first event of a stream',
    async (_, json, code) => {
      const text = JSON.stringify(json);
      for (const [stream, contentType, answer] of [
        [false, 'application/json', text],
        [true, 'application/json', text],
        [true, 'text/event-stream', `data: ${text}\n\ndata: [DONE]\n\n`],
        [true, 'text/event-stream', `event: error\ndata: ${text}\n\n`],
      ] as const) {
        bench.simulator.next({ instead: { status: 200, contentType, body: answer } });
        const { status, json: refused } = await post(stream);
        expect([status, refused.error]).toEqual([400, { ...told, param: 'seed', code }]);
        expect(await lastEvent(code)).toMatchObject({ success: false, status: 400, cost_usd: 0 });
      }
    },
  );

  test('ends a stream that had begun, in its last frame', async () => {
    const chunk = { choices: [{ index: 0, delta: { content: 'Hi' } }] };
    const error = { message: said, type: 'BadRequestError', param: 'seed', code: 400 };
    const events = [chunk, { error }].map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
    bench.simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body: events } });
    const { status, text } = await post(true);
    expect(status).toBe(200);
    const frames = text.trimEnd().split('\n\n');
    expect(JSON.parse(frames[1]!.slice(6))).toEqual({ error: { ...told, param: 'seed', code: null } });
    expect(frames).toHaveLength(2);
    expect(await lastEvent(null)).toMatchObject({ success: false, status: 200, output_tokens: 1 });
  });

  test.each([
    [
      'of a prompt that is too long',
      { code: 400, message: 'It exceeds the available context size.' },
      400,
      'context_length_exceeded',
    ],
    ['for its rate', { type: 'rate_limit_error', message: said }, 429, 'rate_limit_exceeded'],
    ['as overloaded', { code: 503, message: said }, 503, 'server_is_overloaded'],
    ['of our key', { code: 'invalid_api_key', type: 'invalid_request_error', message: said }, 502, 'upstream_error'],
    [
      'of our name for the model',
      { code: 'model_not_found', type: 'invalid_request_error', message: said },
      502,
      'upstream_error',
    ],
    ['for reasons of its own', { code: 1214, message: said }, 502, 'upstream_error'],
  ])('%s is answered with the status that it names', async (_, error, status, code) => {
    for (const stream of [false, true]) {
      const [contentType, text] = stream
        ? ['text/event-stream', `data: ${JSON.stringify({ error })}\n\n`]
        : ['application/json', JSON.stringify({ error })];
      bench.simulator.next({ instead: { status: 200, contentType, body: text } });
      const answer = await post(stream);
      expect([answer.status, answer.json.error.code]).toEqual([status, code]);
      expect(answer.text).not.toContain('the-upstreams-own-key');
    }
  });
});

describe('a choice that says it was cut off', () => {
  const error = { code: 429, message: 'Too many at the-upstreams-own-key.' };
  const choice = { index: 0, message: { role: 'assistant', content: 'Hi' } };
  test.each([
    ['with the error of OpenRouter', { ...choice, finish_reason: null, error }, 429, 'rate_limit_exceeded'],
    ['by its finish_reason', { ...choice, finish_reason: 'error' }, 502, 'upstream_error'],
  ])('%s turns a whole answer into an error that nobody pays for', async (_, broken, status, code) => {
    const usage = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 };
    for (const stream of [false, true]) {
      bench.simulator.next({ instead: { status: 200, body: { choices: [broken], usage } } });
      const body = { model: 'sim-chat', messages, stream };
      const answer = await bench.gateway.call('POST', '/v1/chat/completions', bench.key.key, body);
      expect([answer.status, answer.json.error?.code]).toEqual([status, code]);
      expect(await lastEvent(code)).toMatchObject({ success: false, output_tokens: 0, cost_usd: 0 });
    }
  });

  test.each([1, 2])('ends a stream of %i choices with an error frame', async (n) => {
    const ended = { index: 1, delta: { content: '' }, finish_reason: 'stop' };
    const chunks = [
      { choices: [{ index: 0, delta: { content: 'Hi' } }] },
      { choices: [{ index: 0, delta: { content: '' }, finish_reason: 'error' }, ended].slice(0, n) },
    ];
    const body = `${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`;
    bench.simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body } });
    const stream = await bench.client.chat.completions.create({ model: 'sim-chat', messages, stream: true });
    await expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: 'upstream_error' });
    expect(await lastEvent('upstream_error')).toMatchObject({ success: false, output_tokens: 1 });
  });
});

describe('a success without an answer', () => {
  const page = '<html>\n\n<p>Sign in\n\n</html>\n\n';
  const events = 'text/event-stream';
  test.each([
    ['a page', { status: 200, body: page, contentType: 'text/html' }],
    ['a page that is called a stream', { status: 200, body: page, contentType: events }],
    ['an error', { status: 200, body: { error: { message: 'out of memory' } } }],
    ['a whole completion that does not end', { status: 200, body: { choices: [{ message: { content: 'Hi' } }] } }],
    ['a whole text completion', { status: 200, body: { choices: [{ text: 'Hi', finish_reason: 'stop' }] } }],
    ['a completion without choices', { status: 200, body: { choices: [] } }],
    ['JSON that is broken', { status: 200, body: '{"choices":[', contentType: 'application/json' }],
    ['compressed bytes', { status: 200, body: 'x', contentType: events, headers: { 'content-encoding': 'gzip' } }],
    ['an empty stream', { status: 200, body: '', contentType: events }],
    ['no content', { status: 204, body: '' }],
  ])('%s instead of a stream is a 502 that nobody pays for', async (_what, instead) => {
    bench.simulator.next({ instead });
    const failure = bench.client.chat.completions.create({ model: 'sim-chat', messages, stream: true });
    await expect(failure).rejects.toMatchObject({ status: 502, code: 'upstream_error' });
    expect(await lastEvent('upstream_error')).toMatchObject({ success: false, input_tokens: 0, cost_usd: 0 });
  });

  test.each([
    ['no content', { status: 204, body: '' }],
    [
      'a choice that names its index twice',
      { status: 200, body: '{"choices":[{"index":null,"index":null,"text":"Hi"}]}', contentType: 'application/json' },
    ],
  ])('%s instead of a completion is a 502 that nobody pays for', async (_what, instead) => {
    bench.simulator.next({ instead });
    const failure = bench.client.chat.completions.create({ model: 'sim-chat', messages });
    await expect(failure).rejects.toMatchObject({ status: 502, code: 'upstream_error' });
    expect(await lastEvent('upstream_error')).toMatchObject({ success: false, input_tokens: 0, cost_usd: 0 });
  });
});

describe('an error next to results', () => {
  const usage = { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 };
  const choice = { index: 0, finish_reason: 'stop' };
  const message = { role: 'assistant', content: 'Hi' };
  const wav = () => {
    const form = new FormData();
    form.set('file', new File([Buffer.alloc(100)], 'a.wav'));
    form.set('model', 'sim-transcribe');
    return form;
  };
  const chatRequest = { model: 'sim-chat', messages };
  const chatAnswer = { object: 'chat.completion', choices: [{ ...choice, message }], usage };
  const wholes = [
    ['a chat', '/chat/completions', () => chatRequest, chatAnswer],
    ['a chat in place of a stream', '/chat/completions', () => ({ ...chatRequest, stream: true }), chatAnswer],
    [
      'a completion',
      '/completions',
      () => ({ model: 'sim-chat', prompt: 'Hi' }),
      { choices: [{ ...choice, text: 'Hi' }], usage },
    ],
    [
      'embeddings',
      '/embeddings',
      () => ({ model: 'sim-embedding', input: 'Hi', encoding_format: 'float' }),
      { object: 'list', data: [{ object: 'embedding', index: 0, embedding: [0.5] }], usage },
    ],
    [
      'images',
      '/images/generations',
      () => ({ model: 'sim-image', prompt: 'A cat' }),
      { created: 1, data: [{ b64_json: 'AAAA' }] },
    ],
    ['a transcript', '/audio/transcriptions', wav, { text: 'Hi', usage: { type: 'duration', seconds: 1 } }],
  ] as const;
  const post = (path: string, body: unknown) => bench.gateway.call('POST', `/v1${path}`, bench.key.key, body);
  const answerWith = (body: object) => bench.simulator.next({ instead: { status: 200, body } });
  /** Values that no client takes for an error. */
  const untold = [null, '', false, 0];

  test.each(wholes)('of %s is the answer, and nobody pays', async (_what, path, request, body) => {
    answerWith({ ...body, error: { message: 'It broke off.', code: 503 } });
    const { status, json } = await post(path, request());
    expect([status, json.error.code]).toEqual([503, 'server_is_overloaded']);
    const nothing = { input_tokens: 0, output_tokens: 0, images: 0, audio_seconds: 0, cost_usd: 0 };
    expect(await lastEvent('server_is_overloaded')).toMatchObject({ success: false, ...nothing });
  });

  test.each([{ message: 'No.' }, {}, 'No.', 7, true])('is logged without the results: %j', async (error) => {
    const secret = { role: 'assistant', content: 'what is for the client alone' };
    answerWith({ ...chatAnswer, choices: [{ ...choice, message: secret }], error });
    const from = logLines.length;
    expect((await post('/chat/completions', chatRequest)).status).toBe(502);
    await waitFor(() => logLines.length > from, { description: 'the line in the log' });
    expect(logLines.slice(from).join('')).not.toContain(secret.content);
  });

  test.each(wholes)('of %s is not an error if it says nothing', async (_what, path, request, body) => {
    for (const error of untold) {
      answerWith({ ...body, error });
      const { status, text } = await post(path, request());
      expect([error, status, text.includes('"Hi"') || text.includes('"data"')]).toEqual([error, 200, true]);
    }
  });

  test('of a stream ends it, and only what came before is charged', async () => {
    const chunk = (content: string, more = {}) => ({ choices: [{ index: 0, delta: { content } }], ...more });
    const chunks = [...untold.map((error) => chunk('Hi', { error })), chunk('!', { usage, error: { message: 'No.' } })];
    const body = chunks.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
    bench.simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body } });
    const answer = await bench.client.chat.completions.create({ model: 'sim-chat', messages, stream: true });
    let words = '';
    const read = async () => {
      for await (const { choices } of answer) words += choices[0]!.delta.content;
    };
    await expect(read()).rejects.toMatchObject({ code: 'upstream_error' });
    expect(words).toBe('Hi'.repeat(untold.length));
    expect(await lastEvent('upstream_error')).toMatchObject({ success: false, output_tokens: untold.length });
  });
});

test.each([201, 206])('a whole answer is a 200, though its upstream says %i', async (status) => {
  const body = { choices: [{ message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }] };
  bench.simulator.next({ instead: { status, body } });
  const { response } = await bench.client.chat.completions.create({ model: 'sim-chat', messages }).withResponse();
  expect(response.status).toBe(200);
});
