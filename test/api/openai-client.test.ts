import { createReadStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI, { toFile } from 'openai';
import { makeParseableResponseFormat } from 'openai/lib/parser';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { embedding } from '../support/simulator/other-answers.ts';
import { waitFor } from '../support/wait-for.ts';
import { wavOf } from '../support/wav.ts';

/*
 * The unmodified client, operation by operation, and what its upstream was asked. Other tests in this folder examine each operation more
 * closely.
 */

let bench: InferenceBench;
let client: OpenAI;
const directory = mkdtempSync(join(tmpdir(), 'client-'));
const wav = wavOf(2);
const path = join(directory, 'speech.wav');

beforeAll(async () => {
  writeFileSync(path, wav);
  bench = await startInferenceBench();
  for (const [name, visibility] of [
    ['org/m:tag', 'public'],
    ['org/hidden:tag', 'private'],
  ]) {
    const made = await bench.gateway.call('POST', '/api/v1/admin/models', bench.session, {
      name,
      visibility,
      operations: ['chat_completions'],
    });
    expect(made.status, made.text).toBe(201);
  }
  await waitFor(() => bench.gateway.openai(bench.session).models.retrieve('org/m:tag'), {
    description: 'the model in the catalog',
  });
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true, force: true });
});
beforeEach(async () => {
  await bench.renew();
  client = bench.client;
});

const model = 'sim-chat';
const messages = [{ role: 'user' as const, content: 'Hi' }];
const asked = () => bench.simulator.requests[0]!;
const upload = () => toFile(wav, 'speech.wav');
const transcribe = async (fields: object = {}) =>
  client.audio.transcriptions.create({ file: await upload(), model: 'sim-transcribe', ...fields } as never) as Promise<
    // biome-ignore lint/suspicious/noExplicitAny: answers of every format.
    any
  >;
const vectors = (encoding_format?: 'float' | 'base64') =>
  client.embeddings.create({ model: 'sim-embedding', input: ['a', 'b'], encoding_format });
/** Expects the simulator's vectors, in order, to within a millionth. */
function expectVectors(data: { index: number; embedding: number[] }[]): void {
  expect(data.map(({ index }) => index)).toEqual([0, 1]);
  for (const { index, embedding: vector } of data) {
    expect(vector).toHaveLength(embedding(index).length);
    for (const [position, value] of embedding(index).entries()) {
      expect(Math.abs(vector[position]! - value)).toBeLessThanOrEqual(1e-6);
    }
  }
}
const listOf = (vectorOf: (index: number) => unknown) => ({
  instead: {
    status: 200,
    body: {
      object: 'list',
      data: [0, 1].map((index) => ({ object: 'embedding', index, embedding: vectorOf(index) })),
      model: 'm',
      usage: { prompt_tokens: 2, total_tokens: 2 },
    },
  },
});
const eventStream = (events: object[]) => ({
  instead: {
    status: 200,
    contentType: 'text/event-stream',
    body: `${events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`,
  },
});

const tools = [
  {
    type: 'function' as const,
    function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
  },
];
const person = {
  type: 'json_schema' as const,
  json_schema: {
    name: 'person',
    strict: true,
    schema: {
      type: 'object',
      properties: { age: { type: 'integer' } },
      required: ['age'],
      additionalProperties: false,
    },
  },
};

const operations: Readonly<Record<string, () => Promise<unknown>>> = {
  async 'chat.completions.create'() {
    const completion = await client.chat.completions.create({ model, messages });
    expect(completion.choices[0]!.message.content).toBe(asked().text);
    expect(completion._request_id).toMatch(/^req_/);
    expect(completion.usage).toMatchObject({
      prompt_tokens: asked().promptTokens,
      completion_tokens: asked().generatedTokens,
    });
  },
  async 'create with members that nobody knows, nested ones too'() {
    const extras = { top_k: 7, vendor: { deep: [{ list: [1.5, null, 'ü'] }] }, metadata: { a: 'b' } };
    await client.chat.completions.create({ model, messages, ...extras } as never);
    expect(asked().json).toEqual({ model, messages, ...extras });
  },
  async 'create as a stream'() {
    const stream = await client.chat.completions.create({ model, messages, stream: true });
    const chunks = await Array.fromAsync(stream);
    expect(chunks.map(({ choices }) => choices[0]!.delta.content ?? '').join('')).toBe(asked().text);
    expect(chunks[0]!.choices[0]!.delta.role).toBe('assistant');
    expect(chunks.at(-1)!.choices[0]!.finish_reason).toBe('stop');
    expect(new Set(chunks.map(({ id, created }) => `${id} ${created}`)).size).toBe(1);
    expect(asked().json!.stream_options).toEqual({ include_usage: true });
  },
  async 'create as a stream with include_usage'() {
    const options = { stream: true as const, stream_options: { include_usage: true } };
    const chunks = await Array.fromAsync(await client.chat.completions.create({ model, messages, ...options }));
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: asked().generatedTokens } });
    expect(chunks.slice(0, -1).every(({ usage, choices }) => usage === null && choices.length === 1)).toBe(true);
  },
  async 'stream().finalChatCompletion()'() {
    const completion = await client.chat.completions.stream({ model, messages }).finalChatCompletion();
    expect(completion.choices[0]!.message.content).toBe(asked().text);
  },
  async 'streamed tool calls'() {
    const chunk = (delta: object, finish_reason: string | null = null) => ({
      id: 'c',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'm',
      choices: [{ index: 0, delta, finish_reason }],
    });
    const call = (fields: object) => chunk({ tool_calls: [{ index: 0, ...fields }] });
    bench.simulator.next(
      eventStream([
        chunk({ role: 'assistant', content: null }),
        call({ id: 'call_1', type: 'function', function: { name: 'weather', arguments: '' } }),
        call({ function: { arguments: '{"ci' } }),
        call({ function: { arguments: 'ty":"Oslo"}' } }),
        chunk({}, 'tool_calls'),
      ]),
    );
    const completion = await client.chat.completions.stream({ model, messages, tools }).finalChatCompletion();
    expect(completion.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { tool_calls: [{ id: 'call_1', function: { name: 'weather', arguments: '{"city":"Oslo"}' } }] },
    });
    expect(asked().json!.tools).toEqual(tools);
  },
  async 'parse with a JSON schema'() {
    bench.simulator.next({
      instead: {
        status: 200,
        body: {
          id: 'c',
          object: 'chat.completion',
          created: 1,
          model: 'm',
          choices: [{ index: 0, message: { role: 'assistant', content: '{"age":36}' }, finish_reason: 'stop' }],
        },
      },
    });
    const response_format = makeParseableResponseFormat(person, (content) => JSON.parse(content) as { age: number });
    const completion = await client.chat.completions.parse({ model, messages, response_format });
    expect(completion.choices[0]!.message.parsed).toEqual({ age: 36 });
    expect(asked().json!.response_format).toEqual(person);
  },
  async 'n = 2'() {
    const completion = await client.chat.completions.create({ model, messages, n: 2 });
    expect(completion.choices.map(({ index }) => index)).toEqual([0, 1]);
  },
  async 'completions.create as a stream, of a prompt of tokens'() {
    const stream = await client.completions.create({ model, prompt: [1, 2, 3], stream: true });
    const chunks = await Array.fromAsync(stream);
    expect(chunks.map(({ choices }) => choices[0]!.text).join('')).toBe(asked().text);
    expect(asked().json!.prompt).toEqual([1, 2, 3]);
  },
  async 'embeddings.create by default, which is base64'() {
    expectVectors((await vectors()).data);
    expect(asked().json!.encoding_format).toBe('base64');
  },
  async 'embeddings.create as floats'() {
    expectVectors((await vectors('float')).data);
  },
  async 'embeddings.create where the upstream knows floats only'() {
    bench.simulator.next(listOf((index) => embedding(index)));
    expectVectors((await vectors()).data);
  },
  async 'embeddings.create as floats where the upstream knows base64 only'() {
    bench.simulator.next(listOf((index) => Buffer.from(new Float32Array(embedding(index)).buffer).toString('base64')));
    expectVectors((await vectors('float')).data);
  },
  async 'images.generate'() {
    const images = await client.images.generate({ model: 'sim-image', prompt: 'A cat', background: 'transparent' });
    expect(images.data![0]!.b64_json).toMatch(/^iVBOR/);
    expect(asked().json!.background).toBe('transparent');
  },
  async 'images.generate as a stream'() {
    const stream = await client.images.generate({
      model: 'sim-image',
      prompt: 'A cat',
      stream: true,
      partial_images: 1,
    });
    const events = await Array.fromAsync(stream);
    expect(events.map(({ type }) => type)).toEqual(['image_generation.partial_image', 'image_generation.completed']);
    expect(events.at(-1)).toMatchObject({ usage: { output_tokens: 100 } });
  },
  async 'audio.transcriptions.create of a file that is read while it is sent'() {
    const file = createReadStream(path);
    const transcript = await client.audio.transcriptions.create({ file, model: 'sim-transcribe' });
    expect(transcript).toMatchObject({ text: asked().text, usage: { type: 'duration', seconds: 3 } });
    expect(
      asked()
        .form.find(({ name }) => name === 'file')!
        .bytes.equals(wav),
    ).toBe(true);
  },
  async 'audio.transcriptions.create as verbose_json with words'() {
    const verbose = await transcribe({ response_format: 'verbose_json', timestamp_granularities: ['word'] });
    expect(verbose.words.map(({ word }: { word: string }) => word)).toEqual(asked().text.trim().split(/\s+/));
    expect(verbose.words[0]).toMatchObject({ start: 0, end: expect.any(Number) });
  },
  async 'audio.transcriptions.create as text'() {
    expect(await transcribe({ response_format: 'text' })).toBe(`${asked().text}\n`);
  },
  async 'audio.transcriptions.create as srt'() {
    expect(await transcribe({ response_format: 'srt' })).toMatch(/^1\n00:00:00,000 --> /);
  },
  async 'audio.transcriptions.create as vtt'() {
    expect(await transcribe({ response_format: 'vtt' })).toMatch(/^WEBVTT\n/);
  },
  async 'audio.transcriptions.create as a stream'() {
    const events: { type: string; delta?: string; usage?: object }[] = await Array.fromAsync(
      await transcribe({ stream: true }),
    );
    expect(events.map(({ delta }) => delta ?? '').join('')).toBe(asked().text);
    expect(events.at(-1)).toMatchObject({ type: 'transcript.text.done', usage: { type: 'duration', seconds: 3 } });
  },
  async 'audio.transcriptions.create with a chunking_strategy that is an object'() {
    await transcribe({ chunking_strategy: { type: 'server_vad', threshold: 0.6 } });
    const fields = Object.fromEntries(asked().form.map(({ name, bytes }) => [name, bytes.toString()]));
    expect(fields).toMatchObject({ 'chunking_strategy[type]': 'server_vad', 'chunking_strategy[threshold]': '0.6' });
  },
  async 'audio.translations.create'() {
    const translation = await client.audio.translations.create({ file: await upload(), model: 'sim-transcribe' });
    expect(translation.text).toBe(asked().text);
    expect(asked().operation).toBe('translations');
  },
  async 'audio.speech.create'() {
    const response = await client.audio.speech.create({ model: 'sim-speech', voice: 'alloy', input: 'Hello there' });
    expect(Buffer.from(await response.arrayBuffer())).toEqual(
      Buffer.concat([Buffer.alloc(128, 1), Buffer.alloc(48, 2)]),
    );
    expect(response.headers.get('x-request-id')).toMatch(/^req_/);
  },
  async 'audio.speech.create as events'() {
    const response = await client.audio.speech.create({
      model: 'sim-speech',
      voice: 'alloy',
      input: 'Hello there',
      stream_format: 'sse',
    });
    const events = (await response.text())
      .split('\n')
      .flatMap((line) => (line.startsWith('data: {') ? [JSON.parse(line.slice(6))] : []));
    expect(events.map(({ type }) => type)).toEqual(['speech.audio.delta', 'speech.audio.delta', 'speech.audio.done']);
    expect(Buffer.from(events[0].audio, 'base64')).toEqual(Buffer.alloc(128, 1));
    expect(events.at(-1).usage).toMatchObject({ output_tokens: 2 });
  },
};

describe('asks the upstream once', () => {
  test.each(Object.entries(operations))('%s', async (_name, call) => {
    await call();
    expect(bench.simulator.requests).toHaveLength(1);
  });

  test.each([
    ['is cut', 'cut-in-stream'],
    ['ends cleanly without a finish_reason', 'early-end'],
  ] as const)('for a stream that %s, and raises with a code', async (_what, sim) => {
    const stream = await client.chat.completions.create({ model, messages, stream: true, metadata: { sim } });
    await expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: 'upstream_error' });
    expect(bench.simulator.requests).toHaveLength(1);
  });
});

const refusals: Readonly<Record<string, readonly [call: () => Promise<unknown>, error: unknown, code: string | null]>> =
  {
    'no key': [
      () => client.models.list({ headers: { authorization: null } }),
      OpenAI.AuthenticationError,
      'missing_api_key',
    ],
    'a bad key': [
      () => bench.gateway.openai('sk-proj-nothing').chat.completions.create({ model, messages }),
      OpenAI.AuthenticationError,
      'invalid_api_key',
    ],
    'bad JSON': [
      () =>
        client.post('/chat/completions', {
          body: Buffer.from('{"model":'),
          headers: { 'content-type': 'application/json' },
        }),
      OpenAI.BadRequestError,
      null,
    ],
    'an unknown URL': [() => client.post('/nothing', { body: {} }), OpenAI.NotFoundError, 'unknown_url'],
    'a wrong method': [() => client.get('/embeddings'), OpenAI.APIError, 'method_not_supported'],
    'a model that nobody knows': [
      () => client.chat.completions.create({ model: 'nobody/knows:it', messages }),
      OpenAI.NotFoundError,
      'model_not_found',
    ],
    'a model that has no deployment': [
      () => client.chat.completions.create({ model: 'org/m:tag', messages }),
      OpenAI.InternalServerError,
      'model_unavailable',
    ],
    'a private model': [() => client.models.retrieve('org/hidden:tag'), OpenAI.NotFoundError, 'model_not_found'],
  };

describe('asks the upstream nothing', () => {
  test('models.list, iterated, and models.retrieve of a name with a slash and a colon', async () => {
    const ids: string[] = [];
    for await (const { id } of client.models.list()) ids.push(id);
    expect(ids).toEqual(expect.arrayContaining(['sim-chat', 'org/m:tag']));
    expect(ids).not.toContain('org/hidden:tag');
    expect(await client.models.retrieve('org/m:tag')).toMatchObject({ id: 'org/m:tag', object: 'model' });
    expect(bench.simulator.requests).toHaveLength(0);
  });

  test('a key with a model_allowlist lists what it may call, and the rest is refused by name', async () => {
    await bench.admin('POST', '/models', { name: 'org/gone', operations: ['chat_completions'] });
    const { key } = await bench.gateway.createKey(bench.session, { model_allowlist: ['org/m:tag', 'org/gone'] });
    await bench.admin('DELETE', '/models/org%2Fgone');
    const { models } = bench.gateway.openai(key);
    expect((await models.list()).data.map(({ id }) => id)).toEqual(['org/m:tag']);
    expect(await models.retrieve('org/m:tag')).toMatchObject({ id: 'org/m:tag' });
    await expect(models.retrieve('sim-chat')).rejects.toMatchObject({ status: 403, code: 'model_not_allowed' });
    await expect(models.retrieve('org/gone')).rejects.toMatchObject({ status: 404, code: 'model_not_found' });
  });

  test.each(Object.entries(refusals))('for %s', async (_what, [call, type, code]) => {
    const error = await call().then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(type);
    expect(error).toMatchObject({ code, requestID: expect.stringMatching(/^req_/) });
    expect(bench.simulator.requests).toHaveLength(0);
  });
});

describe('whatever a client accepts', () => {
  test.each(['application/json', 'text/html', 'application/octet-stream', 'image/png;q=1, */*;q=0'])(
    '%s: the request alone decides on the format',
    async (accept) => {
      const headers = { authorization: `Bearer ${bench.key.key}`, 'content-type': 'application/json', accept };
      const answer = await fetch(`${bench.gateway.url}/v1/chat/completions`, {
        method: 'POST',
        headers,
        body: JSON.stringify({ model, messages, stream: true }),
      });
      expect(answer.status).toBe(200);
      expect(Object.fromEntries(answer.headers)).toMatchObject({
        'content-type': expect.stringMatching(/^text\/event-stream/),
        'cache-control': 'no-cache, no-transform',
        'x-accel-buffering': 'no',
        'x-request-id': expect.stringMatching(/^req_/),
      });
      expect(answer.headers.has('content-encoding')).toBe(false);
      expect(await answer.text()).toMatch(/data: \[DONE\]\n\n$/);
    },
  );
});
