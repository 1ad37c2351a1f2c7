import { request as httpRequest, type IncomingMessage } from 'node:http';
import OpenAI, { toFile } from 'openai';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type BehaviourName, startUpstreamSimulator, type UpstreamSimulator } from './upstream-simulator.ts';
import { waitFor } from './wait-for.ts';

let simulator: UpstreamSimulator;
let client: OpenAI;
beforeEach(async () => {
  simulator = await startUpstreamSimulator();
  client = new OpenAI({ apiKey: 'sk-upstream', baseURL: simulator.url, maxRetries: 0 });
});
afterEach(() => simulator.close());

const messages = [{ role: 'user' as const, content: 'twelve chars' }];
const chat = { model: 'sim-chat', messages };

/** A raw exchange that hides nothing: status, headers, body, and how it ended. */
function post(
  path: string,
  body: object,
): Promise<{ head: IncomingMessage | null; body: string; error: string | null }> {
  return new Promise((resolve) => {
    const request = httpRequest(`${simulator.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
    });
    let head: IncomingMessage | null = null;
    let text = '';
    const done = (error: string | null) => resolve({ head, body: text, error });
    request.on('error', (error: NodeJS.ErrnoException) => done(error.code ?? error.message));
    request.on('response', (response) => {
      head = response;
      response.setEncoding('latin1').on('data', (piece: string) => {
        text += piece;
      });
      response.on('end', () => done(null));
      response.on('error', (error: NodeJS.ErrnoException) => done(error.code ?? error.message));
    });
    request.end(JSON.stringify(body));
  });
}

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const collected: Item[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

const events = (body: string) =>
  body
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice(6)));

describe('each operation, through the real client', () => {
  test('chat', async () => {
    const completion = await client.chat.completions.create({ ...chat, max_tokens: 3, user: 'me' });
    expect(completion.choices[0]?.message.content).toBe('word0 word1 word2 ');
    expect(completion.choices[0]?.finish_reason).toBe('length');
    expect(completion.usage).toEqual({ prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 });
    const [truth] = simulator.requests;
    expect(truth).toMatchObject({
      operation: 'chat',
      model: 'sim-chat',
      promptTokens: 3,
      generatedTokens: 3,
      responseId: completion.id,
      status: 200,
      json: { user: 'me' },
      headers: { authorization: 'Bearer sk-upstream' },
    });
    await simulator.waitFor(({ outcome }) => outcome === 'completed');
  });

  test('chat as a stream, with usage if requested', async () => {
    const stream = await client.chat.completions.create({
      ...chat,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await collect(stream);
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe(simulator.requests[0]?.text);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 16 } });
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    const without = await collect(await client.chat.completions.create({ ...chat, stream: true }));
    expect(without.some(({ usage }) => usage != null)).toBe(false);
    expect(simulator.requests[1]).toMatchObject({ generatedTokens: 16, reportedUsage: null });
  });

  test('several choices count together', async () => {
    const completion = await client.chat.completions.create({ ...chat, n: 3, max_tokens: 4 });
    expect(completion.choices).toHaveLength(3);
    expect(completion.usage?.completion_tokens).toBe(12);
    expect(simulator.requests[0]?.generatedTokens).toBe(12);
  });

  test('text completions', async () => {
    const completion = await client.completions.create({ model: 'm', prompt: 'abcd' });
    expect(completion.choices[0]?.text).toContain('word15');
    const stream = await client.completions.create({ model: 'm', prompt: 'abcd', stream: true });
    const chunks = await collect(stream);
    expect(chunks.map((chunk) => chunk.choices[0]?.text).join('')).toBe(completion.choices[0]?.text);
  });

  test('embeddings, the same numbers in both encodings', async () => {
    const input = ['one', 'two'];
    const float = await client.embeddings.create({ model: 'm', input, encoding_format: 'float' });
    const base64 = await client.embeddings.create({ model: 'm', input });
    expect(simulator.requests[1]?.json).toMatchObject({ encoding_format: 'base64' });
    expect(float.data).toHaveLength(2);
    expect(base64.data.map(({ embedding }) => [...embedding])).toEqual(float.data.map(({ embedding }) => embedding));
    expect(float.usage).toEqual({ prompt_tokens: 2, total_tokens: 2 });
  });

  test('images', async () => {
    const images = await client.images.generate({ model: 'm', prompt: 'a cat', n: 2 });
    expect(images.data).toHaveLength(2);
    expect(images.usage?.output_tokens).toBe(200);
    const stream = await client.images.generate({ model: 'm', prompt: 'a cat', stream: true, partial_images: 1 });
    expect((await collect(stream)).map(({ type }) => type)).toEqual([
      'image_generation.partial_image',
      'image_generation.completed',
    ]);
  });

  test('transcriptions: the parts arrive as they were sent', async () => {
    const audio = Buffer.from([...'\r\n--binary\0\xff'].map((letter) => letter.charCodeAt(0)));
    const file = await toFile(audio, 'speech.wav', { type: 'audio/wav' });
    const result = await client.audio.transcriptions.create({ file, model: 'sim-transcribe' });
    expect(result.usage).toEqual({ type: 'duration', seconds: 1 });
    const [truth] = simulator.requests;
    expect(truth?.model).toBe('sim-transcribe');
    expect(truth?.form.find(({ name }) => name === 'file')).toMatchObject({ fileName: 'speech.wav', bytes: audio });
    const again = await toFile(audio, 'speech.wav', { type: 'audio/wav' });
    const text: unknown = await client.audio.transcriptions.create({
      file: again,
      model: 'm',
      response_format: 'text',
    });
    expect(text).toContain('word0');
    const stream = await client.audio.transcriptions.create({
      file: await toFile(audio, 'a.wav'),
      model: 'm',
      stream: true,
    });
    expect((await collect(stream)).at(-1)).toMatchObject({
      type: 'transcript.text.done',
      usage: { seconds: 1 },
    });
  });

  test('speech', async () => {
    const speech = await client.audio.speech.create({ model: 'm', voice: 'alloy', input: 'twenty characters ok' });
    expect(speech.headers.get('content-type')).toBe('audio/mpeg');
    expect((await speech.arrayBuffer()).byteLength).toBe(320);
  });

  test('models', async () => {
    expect((await collect(client.models.list())).map(({ id }) => id)).toContain('sim-chat');
    expect(simulator.truth).toHaveLength(1);
    expect(simulator.requests).toHaveLength(0);
  });
});

describe('how a request is answered', () => {
  test('a marker in the metadata takes precedence over the model name, that over the queue, that over the rule', async () => {
    simulator.otherwise('html-502');
    simulator.next('overloaded', 2);
    expect((await post('/chat/completions', { ...chat, metadata: { sim: 'plain' } })).head?.statusCode).toBe(200);
    expect((await post('/chat/completions', { ...chat, model: 'sim-chat@rate-limited' })).head?.statusCode).toBe(429);
    expect((await post('/chat/completions', chat)).head?.statusCode).toBe(503);
    expect((await post('/chat/completions', chat)).head?.statusCode).toBe(503);
    expect((await post('/chat/completions', chat)).head?.statusCode).toBe(502);
    simulator.reset();
    expect((await post('/chat/completions', chat)).head?.statusCode).toBe(200);
  });

  test('a behaviour can be spelled out in the request', async () => {
    const sim = JSON.stringify({ tokens: 2, cachedTokens: 1 });
    const { body } = await post('/chat/completions', { ...chat, metadata: { sim } });
    expect(JSON.parse(body).usage).toMatchObject({ completion_tokens: 2, prompt_tokens_details: { cached_tokens: 1 } });
  });

  test('an unknown name is reported, not guessed', async () => {
    expect(() => simulator.next('no-such' as BehaviourName)).toThrow('no-such');
    const { head, body } = await post('/chat/completions', { ...chat, model: 'm@no-such' });
    expect([head?.statusCode, body]).toEqual([599, 'Error: the simulator knows no behaviour "no-such"']);
  });

  test('errors have the status, headers and shape of their makers', async () => {
    const limited = await post('/chat/completions', { ...chat, model: 'm@rate-limited' });
    expect(limited.head?.headers['retry-after']).toBe('7');
    const vllm = await post('/chat/completions', { ...chat, model: 'm@vllm-error' });
    expect(JSON.parse(vllm.body).error).toMatchObject({ code: 400, type: 'BadRequestError' });
    const llama = await post('/chat/completions', { ...chat, model: 'm@llama-error' });
    expect(JSON.parse(llama.body).error).not.toHaveProperty('param');
    const html = await post('/chat/completions', { ...chat, model: 'm@html-502' });
    expect(html.head?.headers['content-type']).toBe('text/html');
    const elsewhere = await post('/chat/completions', { ...chat, model: 'm@redirect' });
    expect([elsewhere.head?.statusCode, typeof elsewhere.head?.headers.location]).toEqual([307, 'string']);
    expect((await post('/nowhere', {})).head?.statusCode).toBe(404);
  });
});

describe('streams with quirks', () => {
  const streamed = async (name: BehaviourName, options: object = {}) => {
    simulator.next(name);
    const { body } = await post('/chat/completions', { ...chat, stream: true, ...options });
    return { body, chunks: events(body) };
  };

  test('vLLM: usage in each chunk, cumulative', async () => {
    const { chunks } = await streamed('continuous-usage', { max_tokens: 3 });
    expect(chunks.map(({ usage }) => usage.completion_tokens)).toEqual([0, 1, 2, 3, 3]);
    expect(simulator.requests[0]?.reportedUsage).toMatchObject({ completion_tokens: 3 });
  });

  test('zeroes in each chunk, the truth last', async () => {
    const { chunks } = await streamed('zeroes-first', { max_tokens: 2 });
    expect(chunks.map(({ usage }) => usage.completion_tokens)).toEqual([0, 0, 0, 0, 2]);
  });

  test('no usage although it was requested', async () => {
    const { chunks } = await streamed('no-usage', { stream_options: { include_usage: true } });
    expect(chunks.some(({ usage }) => usage != null)).toBe(false);
  });

  test('Ollama: the role in each delta, a colliding id', async () => {
    const { chunks } = await streamed('ollama');
    expect(chunks.every(({ id, choices }) => id === 'chatcmpl-123' && choices[0].delta.role === 'assistant')).toBe(
      true,
    );
  });

  test('LocalAI: no choices, no index, no object', async () => {
    const { chunks } = await streamed('localai', { stream_options: { include_usage: true } });
    expect(chunks.at(-1)).not.toHaveProperty('choices');
    expect(chunks[1].choices[0]).not.toHaveProperty('index');
    expect(chunks[1]).not.toHaveProperty('object');
  });
});

describe('faults', () => {
  const stream = { ...chat, stream: true };
  const outcome = () => simulator.requests[0]?.outcome;

  test.each(['reset-before-head', 'garbage-head'] as const)('%s', async (name) => {
    simulator.next(name);
    const { head, error } = await post('/chat/completions', chat);
    expect(head).toBeNull();
    expect(error).toMatch(/ECONNRESET|HPE_/);
    expect(outcome()).toBe('faulted');
  });

  test.each(['reset-in-stream', 'cut-in-stream', 'half-close', 'garbage-in-stream'] as const)('%s', async (name) => {
    simulator.next(name);
    const { head, body, error } = await post('/chat/completions', stream);
    expect(head?.statusCode).toBe(200);
    // A reset may overtake bytes that were sent before it; with garbage, Node's client drops what came in the same read.
    if (name === 'cut-in-stream' || name === 'half-close') expect(events(body)).toHaveLength(3);
    expect(body).not.toContain('[DONE]');
    expect(error).toMatch(/ECONNRESET|HPE_/);
    expect(simulator.requests[0]).toMatchObject({ outcome: 'faulted', chunks: 3, generatedTokens: 2 });
  });

  test('a body that is cut in the middle', async () => {
    simulator.next({ fault: { kind: 'cut', afterChunks: 1 } });
    const { head, body, error } = await post('/chat/completions', chat);
    expect(body.length).toBe(Math.floor(Number(head?.headers['content-length']) / 2));
    expect(error).toBe('ECONNRESET');
  });

  test('bad SSE, an error line and an early end are correct HTTP', async () => {
    simulator.next('bad-sse');
    expect(await post('/chat/completions', stream)).toMatchObject({ error: null });
    simulator.next('error-line');
    expect((await post('/chat/completions', stream)).body).toContain('\nerror: {');
    simulator.next('early-end');
    const { body, error } = await post('/chat/completions', stream);
    expect(error).toBeNull();
    expect(body).not.toMatch(/\[DONE\]|"finish_reason":"/);
  });

  test.each(['hang-before-head', 'hang-in-stream'] as const)(
    '%s lasts until the client leaves, which is logged',
    async (name) => {
      simulator.next(name);
      const leave = new AbortController();
      const going = fetch(`${simulator.url}/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(stream),
        signal: leave.signal,
      }).then((response) => response.text());
      await simulator.waitFor(({ chunks, model }) => model !== '' && chunks === (name === 'hang-in-stream' ? 3 : 0));
      expect(outcome()).toBe('running');
      leave.abort();
      await expect(going).rejects.toThrow();
      await simulator.waitFor((entry) => entry.outcome === 'client-left');
    },
  );

  test('a client that leaves stops the generation', async () => {
    simulator.next({ chunkDelayMs: 5, tokens: 100_000 });
    const response = await client.chat.completions.create({ ...chat, stream: true });
    for await (const chunk of response) if (chunk.choices[0]?.delta.content?.startsWith('word5')) break;
    const entry = await simulator.waitFor((one) => one.outcome === 'client-left');
    expect(entry.generatedTokens).toBeGreaterThanOrEqual(6);
    expect(entry.generatedTokens).toBeLessThan(1000);
  });

  test('a held answer waits for the test', async () => {
    const gate = Promise.withResolvers<void>();
    simulator.next({ hold: { until: gate.promise, afterChunks: 2 } });
    const going = post('/chat/completions', stream);
    await simulator.waitFor(({ chunks }) => chunks === 2);
    gate.resolve();
    expect((await going).body).toContain('[DONE]');
  });

  test('delays, trickles and padding', async () => {
    const startMs = performance.now();
    simulator.next({ headDelayMs: 40, trickle: { bytes: 100, delayMs: 1 }, paddingBytes: 1000 });
    const { body } = await post('/chat/completions', chat);
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(39);
    expect(JSON.parse(body).choices[0].message.content).toMatch(/^(word\d+ ){16}x{1000}$/);
    simulator.next('huge');
    expect((await post('/chat/completions', stream)).body.length).toBeGreaterThan(8 * 1024 * 1024);
  });
});

test('waiting in vain reports what the simulator saw', async () => {
  await post('/chat/completions', chat);
  const vain = simulator.waitFor(({ outcome }) => outcome === 'faulted', { timeoutMs: 20, description: 'a fault' });
  await expect(vain).rejects.toThrow(/waited 20 ms for a fault; the simulator saw: 1 chat completed 16 tokens/);
});

test('close ends everything', async () => {
  simulator.next('hang-before-head');
  const going = post('/chat/completions', chat);
  await simulator.waitFor(({ model }) => model !== '');
  await simulator.close();
  expect((await going).error).toBe('ECONNRESET');
  await waitFor(() => simulator.connections === 0, { description: 'no connections' });
});
