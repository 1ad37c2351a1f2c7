import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type InferenceBench, startInferenceBench, tools } from '../support/inference.ts';
import { rawRequest } from '../support/raw-request.ts';

let bench: InferenceBench;
beforeAll(async () => {
  bench = await startInferenceBench();
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.renew());

const messages = [{ role: 'user' as const, content: 'Hi' }];

describe('a whole answer instead of a stream', () => {
  const stream = (fields: object = {}) =>
    bench.gateway.call('POST', '/v1/chat/completions', bench.key.key, {
      model: 'sim-chat',
      messages,
      stream: true,
      ...fields,
    });
  const include_usage = { stream_options: { include_usage: true } };
  const answered = (body: unknown) =>
    bench.simulator.next({ instead: { status: 200, contentType: 'application/json; charset=utf-8', body } });
  /** The only event of the key. */
  const onlyEvent = async () => {
    const event = await bench.event({ success: true });
    const path = `/api/v1/usage/history?api_key_id=${bench.key.id}`;
    expect((await bench.gateway.call('GET', path, bench.session)).json.data).toEqual([event]);
    return event;
  };

  test('becomes a stream of one chunk, plus its usage if the client asked for it, metered once', async () => {
    for (const [fields, usageChunks] of [
      [{}, 0],
      [include_usage, 1],
    ] as const) {
      await bench.renew();
      bench.simulator.next('whole');
      const params = { model: 'sim-chat', messages, stream: true as const, ...fields };
      const { data, response } = await bench.client.chat.completions.create(params).withResponse();
      expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
      expect(response.headers.get('cache-control')).toBe('no-cache, no-transform');
      const [chunk, ...rest] = await Array.fromAsync(data);
      const [truth] = bench.simulator.requests;
      expect(chunk).toEqual({
        id: expect.stringMatching(/^chatcmpl-.{20}/),
        object: 'chat.completion.chunk',
        created: 1_764_000_000,
        model: 'sim-chat',
        service_tier: 'default',
        choices: [
          {
            index: 0,
            delta: { role: 'assistant', content: truth!.text, refusal: null },
            logprobs: null,
            finish_reason: 'stop',
          },
        ],
        ...(usageChunks === 1 && { usage: null }),
      });
      const { id, object, created, model } = chunk!;
      const usage = truth!.reportedUsage;
      expect(rest).toEqual(usageChunks === 0 ? [] : [{ id, object, created, model, choices: [], usage }]);
      expect(await onlyEvent()).toMatchObject({
        success: true,
        input_tokens: truth!.promptTokens,
        output_tokens: truth!.generatedTokens,
      });
    }
  });

  test('ends with [DONE], and contains both choices of n = 2', async () => {
    bench.simulator.next('whole');
    const { text } = await stream({ n: 2, ...include_usage });
    expect(text.endsWith('\n\ndata: [DONE]\n\n')).toBe(true);
    const frames = text.split('\n\n').slice(0, -2);
    const [{ choices }, { usage }] = frames.map((frame) => JSON.parse(frame.slice(6)));
    expect(choices.map(({ index }: { index: number }) => index)).toEqual([0, 1]);
    expect(usage.completion_tokens).toBe(32);
    expect(await onlyEvent()).toMatchObject({ output_tokens: 32 });
    bench.simulator.next('whole');
    const completion = await bench.client.chat.completions
      .stream({ model: 'sim-chat', messages, n: 2 })
      .finalChatCompletion();
    const { text: said } = bench.simulator.requests.at(-1)!;
    expect(completion.choices.map(({ message }) => message.content).join('')).toBe(said);
  });

  test('gives tool calls their index, and keeps unknown members, including numbers that no double can hold', async () => {
    const call = (id: string, city: string) => ({
      id,
      type: 'function',
      function: { name: 'weather', arguments: JSON.stringify({ city }) },
    });
    const calls = [call('call_1', 'Oslo'), call('call_2', 'Rome')];
    const answer = {
      id: 'chatcmpl-0123456789abcdef0123456789',
      created: 1,
      model: 'm',
      choices: [
        {
          delta: null,
          finish_reason: 'tool_calls',
          message: { role: 'assistant', content: null, annotations: [{ 'an extra': '\r\n' }], tool_calls: calls },
          seed: 1,
        },
      ],
      extra: { deep: [1e-7] },
      usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
    };
    // Written by a server that indents and ends lines as Windows does.
    const written = JSON.stringify(answer, null, 2)
      .replaceAll('\n', '\r\n')
      .replace('"seed": 1', '"seed": 12345678901234567890');
    answered(written);
    const completion = await bench.client.chat.completions
      .stream({ model: 'sim-chat', messages, tools })
      .finalChatCompletion();
    expect(completion.choices[0]).toMatchObject({ finish_reason: 'tool_calls', message: { tool_calls: calls } });
    answered(written);
    const { text } = await stream();
    expect(text).toContain('"seed": 12345678901234567890');
    const { usage: __, ...kept } = answer;
    const { delta: ___, message, ...choice } = answer.choices[0]!;
    const delta = { ...message, tool_calls: calls.map((one, index) => ({ ...one, index })) };
    expect(JSON.parse(text.split('\n\n')[0]!.slice(6))).toEqual({
      ...kept,
      object: 'chat.completion.chunk',
      choices: [{ ...choice, seed: Number('12345678901234567890'), index: 0, delta }],
    });
    expect(await bench.event({ success: true })).toMatchObject({ input_tokens: 3, output_tokens: 4 });
  });

  test('without usage is counted in full, and a client that asks gets the metered usage', async () => {
    const words = 'word '.repeat(300_000);
    answered({ choices: [{ message: { content: words }, finish_reason: 'stop' }] });
    const { text } = await stream(include_usage);
    const [{ choices }, { usage }] = text
      .split('\n\n')
      .slice(0, 2)
      .map((frame) => JSON.parse(frame.slice(6)));
    expect(choices[0].delta).toEqual({ role: 'assistant', content: words });
    const event = await onlyEvent();
    // The text is estimated from sixteen samples of it.
    expect(Number(event.output_tokens)).toBeGreaterThan(290_000);
    expect(usage).toMatchObject({ prompt_tokens: event.input_tokens, completion_tokens: event.output_tokens });
  });

  test('may be longer than an event, but not longer than a whole answer', async () => {
    const mebibyte = 1024 * 1024;
    bench.simulator.next({ whole: true, paddingBytes: 5 * mebibyte });
    const { text } = await stream();
    expect(JSON.parse(text.split('\n\n')[0]!.slice(6)).choices[0].delta.content).toBe(
      bench.simulator.requests[0]!.text,
    );
    bench.simulator.next({ whole: true, paddingBytes: 17 * mebibyte });
    const refused = await stream();
    expect([refused.status, refused.json.error.code]).toEqual([502, 'upstream_error']);
    await bench.event({ success: false, cost_usd: 0 });
  });

  test('of a text completion also becomes a stream of one chunk', async () => {
    const create = async (fields: object = {}) =>
      Array.fromAsync(
        await bench.client.completions.create({ model: 'sim-chat', prompt: 'Hi', n: 2, stream: true, ...fields }),
      );
    bench.simulator.next('whole', 2);
    const [chunk, ...rest] = await create();
    const [truth] = bench.simulator.requests;
    expect(chunk).toMatchObject({
      object: 'text_completion',
      choices: [{ index: 0, finish_reason: 'stop' }, { index: 1 }],
    });
    expect(chunk!.choices.map(({ text }) => text).join('')).toBe(truth!.text);
    expect(chunk).not.toHaveProperty('usage');
    expect(rest).toEqual([]);
    expect(await onlyEvent()).toMatchObject({ input_tokens: truth!.promptTokens, output_tokens: 32 });
    const asking = await create(include_usage);
    expect(asking.map(({ usage }) => usage?.completion_tokens)).toEqual([undefined, 32]);
  });
});

describe('a stream on the wire', () => {
  /** The raw bytes that answer two calls over one connection. */
  function answersTo(version: '1.0' | '1.1'): Promise<string> {
    const body = JSON.stringify({ model: 'sandbox-chat', messages, stream: true });
    const request = (connection: string) =>
      [
        `POST /v1/chat/completions HTTP/${version}`,
        'host: gateway.example',
        `authorization: Bearer ${bench.key.key}`,
        'content-type: application/json',
        `content-length: ${body.length}`,
        `connection: ${connection}`,
        '',
        body,
      ].join('\r\n');
    const bytes = version === '1.1' ? request('keep-alive') + request('close') : request('close');
    return rawRequest(bench.gateway.url, bytes);
  }

  test('is sent in HTTP chunks of whole frames, and its connection serves the next call', async () => {
    const [head, ...rest] = (await answersTo('1.1')).split(/(?=HTTP\/1\.1 200 OK)/);
    expect(rest).toHaveLength(1);
    for (const answer of [head!, ...rest]) {
      expect(answer).toMatch(/\r\ntransfer-encoding: chunked\r\n/i);
      let left = answer.slice(answer.indexOf('\r\n\r\n') + 4);
      const chunks: string[] = [];
      for (;;) {
        const [line] = left.split('\r\n', 1);
        expect(line).toMatch(/^[\da-f]+$/);
        const size = Number.parseInt(line!, 16);
        left = left.slice(line!.length + 2);
        if (size === 0) break;
        chunks.push(left.slice(0, size));
        expect(left.slice(size, size + 2)).toBe('\r\n');
        left = left.slice(size + 2);
      }
      expect(left).toBe('\r\n');
      for (const chunk of chunks) expect(chunk).toMatch(/^data: .*\n\n$/s);
      expect(chunks.join('')).toMatch(/data: \[DONE\]\n\n$/);
    }
  });

  test('is plain bytes until the connection closes for an HTTP/1.0 client', async () => {
    const answer = await answersTo('1.0');
    expect(answer).not.toMatch(/transfer-encoding/i);
    expect(answer).toMatch(/\r\n\r\ndata: \{/);
    expect(answer).toMatch(/\n\ndata: \[DONE\]\n\n$/);
  });
});

test.each([
  ['bytes that are no request', 'these are no request\r\n\r\n'],
  ['a CONNECT', 'CONNECT elsewhere.example:443 HTTP/1.1\r\nhost: gateway\r\n\r\n'],
])('%s, sent while a stream runs, cut it off, but nothing is written into it', async (_what, sent) => {
  const { hostname, port } = new URL(bench.gateway.url);
  const never = new Promise(() => {});
  bench.simulator.next({ hold: { until: never, afterChunks: 2 } });
  const body = JSON.stringify({ model: 'sim-chat', messages, stream: true });
  const socket = connect(Number(port), hostname).setEncoding('utf8');
  socket.on('error', () => {});
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${bench.key.key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  let answer = '';
  socket.on('data', (piece: string) => {
    if (answer === '') socket.write(sent);
    answer += piece;
  });
  await once(socket, 'close');
  expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1);
  await bench.simulator.waitFor(({ outcome }) => outcome === 'client-left');
});
