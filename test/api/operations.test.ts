import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { wavOf } from '../support/wav.ts';

let bench: InferenceBench;
beforeAll(async () => {
  bench = await startInferenceBench();
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.renew());

describe('text completions', () => {
  test('answer whole, with usage', async () => {
    const { client, simulator } = bench;
    const completion = await client.completions.create({ model: 'sim-chat', prompt: 'Once' });
    expect(completion).toMatchObject({ object: 'text_completion', choices: [{ index: 0, finish_reason: 'stop' }] });
    expect(completion._request_id).toMatch(/^req_/);
    await bench.event({ output_tokens: simulator.requests[0]!.generatedTokens, endpoint: '/v1/completions' });
  });

  test('stream, and end without a usage chunk unless asked for one', async () => {
    const stream = await bench.client.completions.create({ model: 'sim-chat', prompt: 'Once', stream: true });
    const chunks = await Array.fromAsync(stream);
    expect(chunks.map((chunk) => chunk.choices[0]!.text).join('')).toBe(bench.simulator.requests[0]!.text);
    expect(chunks.every((chunk) => chunk.choices.length === 1)).toBe(true);
  });

  test('a prompt of tokens reaches the upstream unchanged, and is counted with its suffix if the upstream does not', async () => {
    bench.simulator.next('no-usage');
    await bench.client.completions.create({ model: 'sim-chat', prompt: [1, 2, 3, 4, 5], suffix: 'the end' });
    expect(bench.simulator.requests[0]!.json!.prompt).toEqual([1, 2, 3, 4, 5]);
    const event = await bench.event({ input_tokens: 7 });
    expect(event.output_tokens).toBeGreaterThan(0);
  });

  test.each([{ stream: false }, { stream: true }])(
    'prompts that an answer repeats are no output: %o',
    async ({ stream }) => {
      const prompts = ['Once upon a time there was a fox.', 'It was a dark and stormy night.'];
      const choices = prompts.flatMap((prompt, place) =>
        [' A', ' B'].map((said, turn) => ({
          index: 2 * place + turn,
          text: `${prompt}${said}`,
          logprobs: null,
          finish_reason: 'stop',
        })),
      );
      const answer = { id: 'cmpl-0123456789abcdef', object: 'text_completion', created: 1, model: 'sim-chat' };
      const chunks = choices.map((choice) => `data: ${JSON.stringify({ ...answer, choices: [choice] })}\n\n`);
      bench.simulator.next({
        instead: stream
          ? { status: 200, contentType: 'text/event-stream', body: `${chunks.join('')}data: [DONE]\n\n` }
          : { status: 200, body: { ...answer, choices } },
      });
      const asked = { model: 'sim-chat', prompt: prompts, n: 2, best_of: 3, echo: true, stream };
      expect((await bench.gateway.call('POST', '/v1/completions', bench.key.key, asked)).status).toBe(200);
      expect((await bench.event({ success: true })).output_tokens).toBe(choices.length);
    },
  );

  test('nor is the message that a chat continues, where its stream repeats that and breaks off', async () => {
    const continued = 'Once upon a time there was a fox, and it was a dark and stormy night.';
    const chunk = { id: 'chatcmpl-0123456789abcdef', object: 'chat.completion.chunk', created: 1, model: 'sim-chat' };
    const chunks = ['', continued, ' A', ' B'].map((content) => {
      const delta = { role: 'assistant', content };
      return `data: ${JSON.stringify({ ...chunk, choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;
    });
    bench.simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body: chunks.join('') } });
    const messages = [
      { role: 'user', content: 'Go on' },
      { role: 'assistant', content: continued },
    ];
    const asked = { model: 'sim-chat', messages, echo: true, continue_final_message: true, stream: true };
    await bench.gateway.call('POST', '/v1/chat/completions', bench.key.key, asked);
    // At least one for each delta.
    expect((await bench.event({ success: false })).output_tokens).toBe(3);
  });
});

describe('embeddings', () => {
  const raw = async (encoding_format?: string) => {
    const body = { model: 'sim-embedding', input: 'x', ...(encoding_format && { encoding_format }) };
    const answer = await bench.gateway.call('POST', '/v1/embeddings', bench.key.key, body);
    expect(answer.status).toBe(200);
    return answer.json;
  };
  const base64 = Buffer.from(new Float32Array([0.5, -1.25, 3]).buffer).toString('base64');
  const list = (vector: unknown) => ({
    instead: {
      status: 200,
      body: {
        object: 'list',
        data: [{ object: 'embedding', index: 0, embedding: vector, 'an extra': 1 }],
        model: 'm',
        usage: { prompt_tokens: 1, total_tokens: 1 },
      },
    },
  });

  test('what servers leave out is added: as Google does, the index of the first vector, and the usage as charged', async () => {
    const data = [{ embedding: [0.5, -1.25, 3] }, { object: 'embedding', index: 1, embedding: [0.5, -1.25, 3] }];
    for (const format of ['float', 'base64']) {
      bench.simulator.next({ instead: { status: 200, body: { data } } });
      const { data: vectors, usage, ...list } = await raw(format);
      expect(list).toEqual({ object: 'list', model: 'sim-embedding' });
      expect(vectors.map((vector: { index: number }) => vector.index)).toEqual([0, 1]);
      expect(vectors.map(({ object }: { object: string }) => object)).toEqual(['embedding', 'embedding']);
      expect(usage).toEqual({ prompt_tokens: 1, total_tokens: 1 });
    }
    await bench.event({ endpoint: '/v1/embeddings', input_tokens: 1 });
  });

  test('floats from an upstream that knows nothing else are converted to base64', async () => {
    bench.simulator.next(list([0.5, -1.25, 3]));
    expect((await raw('base64')).data).toEqual([{ object: 'embedding', index: 0, embedding: base64, 'an extra': 1 }]);
  });

  test('a list of megabytes is converted, completed and refused like a short one', async () => {
    const numbers = Array.from({ length: 1_024 }, (_, place) => Math.fround(Math.sin(place) / 10));
    const data = Array.from({ length: 200 }, (_, index) => ({ object: 'embedding', index, embedding: numbers }));
    const packed = Buffer.from(new Float32Array(numbers).buffer).toString('base64');
    const usage = { prompt_tokens: 1, total_tokens: 1 };
    const padded = { ...data[0]!, embedding: packed, padding: 'x'.repeat(2_000_000) };
    const last = { ...data[0]!, embedding: null };
    const answers = async (list: object, format: string) => {
      bench.simulator.next({ instead: { status: 200, body: { object: 'list', model: 'm', ...list } } });
      return raw(format);
    };

    expect(await answers({ data, usage }, 'float')).toEqual({ object: 'list', model: 'm', data, usage });
    const inBase64 = data.map((item) => ({ ...item, embedding: packed }));
    expect(await answers({ data, usage }, 'base64')).toEqual({ object: 'list', model: 'm', data: inBase64, usage });
    expect(await answers({ data }, 'base64')).toEqual({ object: 'list', model: 'm', data: inBase64, usage });
    expect((await answers({ data: [padded], usage: null }, 'float')).data).toEqual([{ ...padded, embedding: numbers }]);
    bench.simulator.next({ instead: { status: 200, body: { object: 'list', data: [...data, last], usage } } });
    const body = { model: 'sim-embedding', input: 'x', encoding_format: 'base64' };
    const refused = await bench.gateway.call('POST', '/v1/embeddings', bench.key.key, body);
    expect([refused.status, refused.json.error.code]).toEqual([502, 'upstream_error']);
    await raw();
  });

  test('base64 from an upstream that knows nothing else is converted to floats', async () => {
    for (const format of [undefined, 'float']) {
      bench.simulator.next(list(base64));
      expect((await raw(format)).data[0].embedding).toEqual([0.5, -1.25, 3]);
    }
  });

  test('what is not a list of vectors is an upstream fault, never an empty vector', async () => {
    for (const vector of [null, 'AAA', ['a'], {}]) {
      bench.simulator.next(list(vector));
      const answer = await bench.gateway.call('POST', '/v1/embeddings', bench.key.key, {
        model: 'sim-embedding',
        input: 'x',
        encoding_format: vector === 'AAA' ? 'float' : 'base64',
      });
      expect([answer.status, answer.json.error.code]).toEqual([502, 'upstream_error']);
      // A success in between keeps the breaker closed.
      await raw();
    }
  });

  test('arrays of tokens pass through, and are counted if the upstream does not', async () => {
    bench.simulator.next({ usage: 'absent' });
    await bench.client.embeddings.create({ model: 'sim-embedding', input: [[1, 2, 3], [4]] });
    expect(bench.simulator.requests[0]!.json!.input).toEqual([[1, 2, 3], [4]]);
    await bench.event({ input_tokens: 4, output_tokens: 0 });
  });

  test('are counted by themselves, each text of several, where the upstream does not', async () => {
    bench.simulator.next({ usage: 'absent' });
    await bench.client.embeddings.create({ model: 'sim-embedding', input: ['cat', 'dog', 'fox'] });
    await bench.event({ input_tokens: 3, output_tokens: 0 });
  });

  test.each([
    [{ model: 'sim-embedding' }, 'input'],
    [{ model: 'sim-embedding', input: 1 }, 'input'],
    [{ model: 'sim-embedding', input: 'a', encoding_format: 'hex' }, 'encoding_format'],
    [{ input: 'a' }, 'model'],
  ])('%j is refused by the name of its field', async (body, param) => {
    const answer = await bench.gateway.call('POST', '/v1/embeddings', bench.key.key, body);
    expect(answer.status).toBe(400);
    expect(answer.json.error.param).toBe(param);
  });
});

describe('images', () => {
  const author = {
    model: 'sim-chat',
    input_tokens: 300,
    output_tokens: 8_000,
    reasoning_tokens: 6_000,
    total_tokens: 8_300,
  };
  const svgUsage = { svg_usage: author };

  test('are counted, with their tokens', async () => {
    const images = await bench.client.images.generate({ model: 'sim-image', prompt: 'A cat', n: 2 });
    expect(images.data).toHaveLength(2);
    await bench.event({ images: 2, output_tokens: 200, endpoint: '/v1/images/generations' });
  });

  test.each([
    ['of high quality', { quality: 'high' }, { output_tokens: 7_024 }, {}, 7_024],
    ['in 4K', { size: '3840x2160', quality: 'max' }, { output_tokens: 60_000 }, {}, 60_000],
    ['as a drawing that another model writes', { output_format: 'svg' }, { output_tokens: 1_756 }, svgUsage, 9_756],
  ])('%s are charged all tokens that their models report', async (_what, fields, reported, beside, charged) => {
    const usage = { input_tokens: 12, total_tokens: 12 + reported.output_tokens, ...reported };
    const body = { created: 1, data: [{ b64_json: 'AAAA' }], usage, ...beside };
    bench.simulator.next({ instead: { status: 200, body } });
    const asked = { model: 'sim-image', prompt: 'A cat', ...fields };
    const answer = await bench.gateway.call('POST', '/v1/images/generations', bench.key.key, asked);
    expect(answer.json).toEqual(body);
    await bench.event({ images: 1, input_tokens: 'svg_usage' in beside ? 312 : 12, output_tokens: charged });
  });

  test('stream partial ones and the usage of the last', async () => {
    const stream = await bench.client.images.generate({
      model: 'sim-image',
      prompt: 'A cat',
      stream: true,
      partial_images: 2,
    });
    const types = (await Array.fromAsync(stream)).map(({ type }) => type);
    expect(types).toEqual([
      'image_generation.partial_image',
      'image_generation.partial_image',
      'image_generation.completed',
    ]);
    await bench.event({ images: 1, output_tokens: 100 });
  });

  test.each([
    { of: 'each image with its own', usages: [5, 7], charged: [20, 12] },
    { of: 'the last one with that of all', usages: [null, 7], charged: [10, 7] },
    { of: 'each of them as large as a prompt may be', usages: [7, 7], input: 131_072, charged: [262_144, 14] },
  ])('stream several, and pay what their events report: $of', async ({ usages, input = 10, charged }) => {
    const events = usages.map((output) => {
      const usage = output === null ? undefined : { input_tokens: input, output_tokens: output };
      return `data: ${JSON.stringify({ type: 'image_generation.completed', b64_json: 'AAAA', usage })}\n\n`;
    });
    bench.simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body: events.join('') } });
    const asked = { model: 'sim-image', prompt: 'A cat', n: 2, stream: true } as const;
    expect(await Array.fromAsync(await bench.client.images.generate(asked))).toHaveLength(2);
    await bench.event({ images: 2, input_tokens: charged[0], output_tokens: charged[1] });
  });

  test('stream one in 4K as an incompressible PNG', async () => {
    const paddingBytes = (3840 * 2160 * 3 * 4) / 3;
    bench.simulator.next({ paddingBytes });
    const stream = await bench.client.images.generate({ model: 'sim-image', prompt: 'Noise', stream: true });
    const [event] = await Array.fromAsync(stream);
    expect(event!.b64_json.length).toBeGreaterThan(paddingBytes);
    await bench.event({ images: 1, output_tokens: 100 });
  });

  test('answered whole instead of as a stream are turned into events, the last one with the usage', async () => {
    bench.simulator.next('whole');
    const stream = await bench.client.images.generate({ model: 'sim-image', prompt: 'A cat', n: 2, stream: true });
    const [one, last] = await Array.fromAsync(stream);
    expect(one).toEqual({
      type: 'image_generation.completed',
      b64_json: expect.stringMatching(/^iVBOR/),
      created_at: 1_764_000_000,
    });
    expect(last).toEqual({ ...one, usage: bench.simulator.requests[0]!.reportedUsage });
    await bench.event({ images: 2, output_tokens: 200 });

    const image = { b64_json: 'AAAA', revised_prompt: 'A\r\ncat' };
    const body = { data: [image], created: 5, size: '1024x1024', quality: 'low', output_format: 'png', extra: 1 };
    const written = JSON.stringify(body, null, 2).replaceAll('\n', '\r\n');
    bench.simulator.next({ instead: { status: 200, contentType: 'application/json', body: written } });
    const indented = await bench.client.images.generate({ model: 'sim-image', prompt: 'A cat', stream: true });
    expect(await Array.fromAsync(indented)).toEqual([
      { ...image, type: one!.type, created_at: 5, size: '1024x1024', quality: 'low', output_format: 'png' },
    ]);
    await bench.event({ images: 1, output_tokens: 0 });
  });

  test('refused by a safety system in their stream are no fault of their upstream, which serves on', async () => {
    const error = { type: 'image_generation_user_error', code: 'moderation_blocked', message: 'Unsafe.', param: null };
    const partial = { type: 'image_generation.partial_image', b64_json: 'AAAA', partial_image_index: 0 };
    const told = { code: 'moderation_blocked', message: expect.stringContaining('Unsafe.') };
    for (let time = 0; time < 3; time += 1) {
      for (const [events, refused] of [
        [[], { ...told, status: 400 }],
        [[partial], told],
      ] as const) {
        const body = [...events, { type: 'error', error }]
          .map((event) => `data: ${JSON.stringify(event)}\n\n`)
          .join('');
        bench.simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body } });
        const asked = { model: 'sim-image', prompt: 'A cat', stream: true } as const;
        const read = async () => Array.fromAsync(await bench.client.images.generate(asked));
        await expect(read()).rejects.toMatchObject(refused);
      }
    }
    await bench.event({ success: false, error_code: 'moderation_blocked', cost_usd: 0 });
    expect((await bench.client.images.generate({ model: 'sim-image', prompt: 'A cat' })).data).toHaveLength(1);
  });

  test('a stream that ends before its image is an error with a code', async () => {
    bench.simulator.next({ fault: { kind: 'early-end', afterChunks: 1 } });
    const stream = await bench.client.images.generate({
      model: 'sim-image',
      prompt: 'A cat',
      stream: true,
      partial_images: 1,
    });
    await expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: 'upstream_error' });
    await bench.event({ images: 0, success: false });
  });
});

test.each([
  ['none', []],
  ['no objects', ['AAAA']],
  ['neither there nor elsewhere', [{ b64_json: 'AAAA' }, { revised_prompt: 'A cat', url: null, b64_json: '' }]],
  ['no texts', [{ b64_json: 5, url: {} }]],
])('images that are %s are an upstream fault that nobody pays for', async (_what, data) => {
  const generate = () => bench.client.images.generate({ model: 'sim-image', prompt: 'A cat' });
  // A success in between keeps the breaker closed.
  await generate();
  bench.simulator.next({ instead: { status: 200, body: { created: 1, data } } });
  await expect(generate()).rejects.toMatchObject({ status: 502, code: 'upstream_error' });
  await bench.event({ success: false, error_code: 'upstream_error', images: 0, cost_usd: 0 });
});

describe('speech', () => {
  const input = 'The quick brown fox jumps over the lazy dog. '.repeat(20);

  test('sends the upstream’s bytes, the first of them long before the last', async () => {
    bench.simulator.next({ chunkDelayMs: 10 });
    const startedMs = performance.now();
    const response = await bench.client.audio.speech.create({ model: 'sim-speech', voice: 'alloy', input });
    expect(response.headers.get('content-type')).toBe('audio/mpeg');
    expect(response.headers.get('x-accel-buffering'), 'a proxy in front passes it on as it comes').toBe('no');
    const pieces: Uint8Array[] = [];
    let firstMs = 0;
    for await (const piece of response.body!) {
      if (pieces.length === 0) firstMs = performance.now() - startedMs;
      pieces.push(piece);
    }
    expect(firstMs).toBeLessThan((performance.now() - startedMs) / 2);
    const expected = Array.from({ length: Math.ceil(input.length / 8) }, (_, index) =>
      Buffer.alloc(16 * Math.min(8, input.length - index * 8), index + 1),
    );
    expect(Buffer.concat(pieces).equals(Buffer.concat(expected))).toBe(true);
    await bench.event({ characters: input.length, success: true });
  });

  test('as events it carries usage, and if they break off costs a token for each', async () => {
    const asked = { model: 'sim-speech', voice: 'alloy', input: 'Hello there', stream_format: 'sse' };
    const speak = () => bench.gateway.call('POST', '/v1/audio/speech', bench.key.key, asked);
    const response = await speak();
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    expect(response.text).toContain('"type":"speech.audio.done"');
    await bench.event({ characters: 11, output_tokens: 2 });

    const piece = `data: ${JSON.stringify({ type: 'speech.audio.delta', audio: 'AAAA' })}\n\n`;
    bench.simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body: piece.repeat(3) } });
    expect((await speak()).text).toContain('"error"');
    await bench.event({ success: false, characters: 11, output_tokens: 3 });
  });

  test.each([
    ['that is too long', 'a'.repeat(4_097), { code: 'string_above_max_length', message: 'has 4097 characters' }],
    ['that is empty', '', { code: 'missing_required_field', message: 'must be a string that is not empty' }],
  ])('text %s is refused before it costs anything', async (_name, text, { code, message }) => {
    await expect(
      bench.client.audio.speech.create({ model: 'sim-speech', voice: 'alloy', input: text }),
    ).rejects.toMatchObject({ status: 400, code, param: 'input', message: expect.stringContaining(message) });
    expect(bench.simulator.requests).toHaveLength(0);
  });

  test.each([
    ['a page', { status: 200, body: '<html>Sign in</html>', contentType: 'text/html' }],
    ['an error', { status: 200, body: { error: { message: 'out of memory' } } }],
    ['an error without a type', { status: 200, body: { error: { message: 'out of memory' } }, contentType: null }],
    ['an error in a list', { status: 200, body: '\n [ {"error": 5}]', contentType: null }],
    ['an error of no type', { status: 200, body: '{}', contentType: 'application/octet-stream' }],
    ['a page without a type', { status: 200, body: '\ufeff<!doctype html><p>Sign in', contentType: null }],
    ['XML', { status: 200, body: '<?xml version="1.0"?><Error/>', contentType: 'application/xml' }],
    ['XML without a type', { status: 200, body: ' <Error>Sign in</Error>', contentType: null }],
    ['a form', { status: 200, body: 'error=5', contentType: 'application/x-www-form-urlencoded' }],
    ['compressed', { status: 200, body: 'x', contentType: 'audio/mpeg', headers: { 'content-encoding': 'gzip' } }],
    ['empty', { status: 200, body: '', contentType: 'audio/mpeg' }],
    ['no content', { status: 204, body: '' }],
  ])('an answer that is %s is not audio, but a 502 that nobody pays for', async (_what, instead) => {
    const speak = () => bench.client.audio.speech.create({ model: 'sim-speech', voice: 'alloy', input });
    // A success in between keeps the failures from opening the breaker.
    await (await speak()).arrayBuffer();
    bench.simulator.next({ instead });
    await expect(speak()).rejects.toMatchObject({ status: 502, code: 'upstream_error' });
    await bench.event({ success: false, error_code: 'upstream_error', characters: 0, cost_usd: 0 });
  });

  test.each([
    ['without a type', null, 'ID3\u0004'],
    ['of any bytes', 'application/octet-stream', 'ID3\u0004'],
    ['that begins as words might', null, '{\u0001<\u0000'],
  ])('audio %s is labelled with the type that was asked for', async (_what, contentType, body) => {
    bench.simulator.next({ instead: { status: 200, body, contentType } });
    const response = await bench.client.audio.speech.create({ model: 'sim-speech', voice: 'alloy', input });
    expect(response.headers.get('content-type')).toBe('audio/mpeg');
    expect(await response.text()).toBe(body);
    await bench.event({ success: true, characters: input.length });
  });

  test('in a format that nobody knows is passed on as its upstream sends it, whatever the format is called', async () => {
    for (const response_format of ['opus2', 'constructor', '__proto__']) {
      bench.simulator.next({ instead: { status: 200, body: 'sound', contentType: 'application/octet-stream' } });
      const body = { model: 'sim-speech', voice: 'alloy', input, response_format };
      const answer = await bench.gateway.call('POST', '/v1/audio/speech', bench.key.key, body);
      expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/octet-stream']);
    }
  });

  test('an error instead of audio is not the final answer: another deployment is tried next', async () => {
    await bench.admin('POST', '/models', { name: 'speaks', operations: ['audio_speech'] });
    for (const upstream_model of ['sim-speech', 'sim-speech-2']) {
      await bench.admin('POST', '/deployments', { model: 'speaks', base_url: bench.simulator.url, upstream_model });
    }
    const body = { error: { message: 'No such key: the-upstreams-own-key' } };
    bench.simulator.next({ instead: { status: 200, body, contentType: null } });
    const response = await bench.client.audio.speech.create({ model: 'speaks', voice: 'alloy', input });
    expect(await response.text()).not.toContain('No such key');
    expect(bench.simulator.requests).toHaveLength(2);
    await bench.event({ success: true, characters: input.length });
  });

  test('audio that breaks off breaks the connection, so that nobody takes it for complete', async () => {
    bench.simulator.next({ fault: { kind: 'cut', afterChunks: 3 } });
    const response = await bench.client.audio.speech.create({ model: 'sim-speech', voice: 'alloy', input });
    await expect(response.arrayBuffer()).rejects.toThrow();
    await bench.event({ success: false, error_code: 'upstream_error' });
  });
});

describe('what an upstream leaves out or repeats', () => {
  const messages = [{ role: 'user' as const, content: 'Hi' }];

  test('colliding ids are replaced', async () => {
    const ids = new Set<string>();
    for (let time = 0; time < 2; time++) {
      bench.simulator.next('ollama');
      ids.add((await bench.client.chat.completions.create({ model: 'sim-chat', messages })).id);
    }
    expect(ids.size).toBe(2);
    expect([...ids].every((id) => id.length > 30)).toBe(true);
  });

  test('missing members are added', async () => {
    const message = { role: 'assistant', content: 'Hello' };
    bench.simulator.next({
      instead: { status: 200, body: { choices: [{ message, finish_reason: 'stop' }, { message }] } },
    });
    const completion = await bench.client.chat.completions.create({ model: 'sim-chat', messages });
    expect(completion).toMatchObject({
      object: 'chat.completion',
      model: 'sim-chat',
      choices: [{ index: 0, message }, { index: 1 }],
    });
    expect(completion.created).toBeGreaterThan(1_700_000_000);
    // What the upstream did not count, the gateway counts: "Hello", twice.
    await bench.event({ output_tokens: 2 });

    const chunks = [{ delta: message }, { delta: {}, finish_reason: 'stop' }].map((choice) => ({ choices: [choice] }));
    const events = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('');
    bench.simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body: events } });
    const asked = { model: 'sim-chat', messages, stream: true, stream_options: { include_usage: true } } as const;
    const streamed = await Array.fromAsync(await bench.client.chat.completions.create(asked));
    expect(streamed.map(({ model }) => model)).toEqual(['sim-chat', 'sim-chat', 'sim-chat']);
  });

  test('a creation time with a fraction, as SambaNova writes it, becomes whole seconds', async () => {
    const choices = [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }];
    bench.simulator.next({ instead: { status: 200, body: { created: 1_744_857_525.25, model: 'x', choices } } });
    const { created } = await bench.client.chat.completions.create({ model: 'sim-chat', messages });
    expect(created).toSatisfy(Number.isInteger);
  });

  test.each([
    ['alone', { error: { message: 'out of memory' } }],
    ['that is flat', { object: 'error', message: 'out of memory', type: 'InternalServerError', code: 500 }],
    [
      'beside no choices',
      { choices: [], usage: { prompt_tokens: 7, completion_tokens: 0 }, error: { message: 'out of memory' } },
    ],
  ])('an error %s is an upstream fault that nobody pays for, though its status says success', async (_what, body) => {
    bench.simulator.next({ instead: { status: 200, body } });
    await expect(bench.client.chat.completions.create({ model: 'sim-chat', messages })).rejects.toBeInstanceOf(
      OpenAI.InternalServerError,
    );
    await bench.event({ success: false, error_code: 'upstream_error', input_tokens: 0, cost_usd: 0 });
  });

  test.each([
    ['embeddings', { model: 'sim-embedding', input: 'x' }, { object: 'list', data: [] }],
    ['images/generations', { model: 'sim-image', prompt: 'A cat' }, { created: 1, data: [] }],
    ['audio/transcriptions', null, { text: '' }],
  ])('of %s it is an error beside no results', async (path, json, nothing) => {
    const ask = () => {
      if (json !== null) return bench.gateway.call('POST', `/v1/${path}`, bench.key.key, json);
      const form = new FormData();
      form.set('file', new File([wavOf(1)], 'a.wav'));
      form.set('model', 'sim-transcribe');
      return bench.gateway.call('POST', `/v1/${path}`, bench.key.key, form);
    };
    const answer = async (body: object) => {
      bench.simulator.next({ instead: { status: 200, body } });
      const { status, json: told } = await ask();
      return [status, told.error?.code ?? told.error];
    };
    const error = { message: 'Full.', code: 503 };
    expect(await answer({ ...nothing, error })).toEqual([503, 'server_is_overloaded']);
    await bench.event({ success: false, error_code: 'server_is_overloaded', cost_usd: 0 });
    expect(await answer({ ...nothing, error: 'out of memory' })).toEqual([502, 'upstream_error']);
    if (!path.startsWith('images')) expect(await answer({ ...nothing, error: null })).toEqual([200, null]);
  });

  test('words that are spoken or in tool calls are counted where an upstream does not', async () => {
    const words = 'Seven words that nobody else would count.';
    const completion = (message: object) => ({ choices: [{ message, finish_reason: 'stop' }] });
    const counted = async (message: object) => {
      bench.simulator.next({ instead: { status: 200, body: completion({ role: 'assistant', ...message }) } });
      const { id } = await bench.client.chat.completions.create({ model: 'sim-chat', messages });
      expect(id).toMatch(/^chatcmpl-/);
      const { output_tokens } = await bench.event({ success: true });
      await bench.renew();
      return output_tokens;
    };
    const spoken = { id: 'audio_0123456789', data: 'AAAA'.repeat(1_000), expires_at: 1 };
    const asContent = await counted({ content: words });
    expect(asContent).toBeGreaterThan(6);
    expect(await counted({ content: null, audio: { ...spoken, transcript: words } })).toBe(asContent);
    expect(await counted({ content: words, audio: spoken })).toBe(asContent);
    const called = { name: 'Seven words', arguments: ' that nobody else would count.' };
    expect(await counted({ content: null, function_call: called })).toBe(asContent);
    const tool_calls = [{ id: 'call_0123456789', type: 'function', function: called }];
    expect(await counted({ content: null, tool_calls })).toBe(asContent);
  });

  test('functions, the older form of tools, are counted in the prompt where an upstream does not', async () => {
    const described = { name: 'get_weather', description: 'What the weather is like in a city', parameters: {} };
    const counted = async (offered: object) => {
      const body = { choices: [{ message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }] };
      bench.simulator.next({ instead: { status: 200, body } });
      await bench.client.chat.completions.create({ model: 'sim-chat', messages, ...offered });
      const { input_tokens } = await bench.event({ success: true });
      await bench.renew();
      return input_tokens;
    };
    const alone = await counted({});
    expect(await counted({ functions: [described] })).toBeGreaterThan(Number(alone) + 6);
  });

  test('unknown and nested members arrive intact, including numbers that no double can hold', async () => {
    const extra = '"extra" : {"deep":[{"ключ":["\\u0000",1e-7,-0,{"a":null}]}],"big":12345678901234567890}';
    const body = `{"model":"sim-chat","messages":[{"role":"user","content":"Hi"}], ${extra}}`;
    const answer = await bench.gateway.call('POST', '/v1/chat/completions', bench.key.key, body);
    expect(answer.status).toBe(200);
    expect(bench.simulator.requests[0]!.body.toString()).toContain(extra);
  });
});
