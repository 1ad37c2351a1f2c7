import { randomBytes } from 'node:crypto';
import type OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { loadTokenizer } from '../../services/models/bytes/tokens.ts';
import { type InferenceBench, renewAfterSuccess, startInferenceBench } from '../support/inference.ts';
import type { BehaviourName, UpstreamSimulator } from '../support/upstream-simulator.ts';

let bench: InferenceBench;
let simulator: UpstreamSimulator;
let client: OpenAI;

beforeAll(async () => {
  bench = await startInferenceBench();
  ({ simulator } = bench);
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

/** The usage event of the last request, once it is stored. */
const lastEvent = (error_code: string | null) => bench.event({ error_code });

describe('usage', () => {
  test.each([
    ['plain', 'as the upstream says'],
    ['continuous-usage', 'the last of cumulative counts, never their sum'],
    ['zeroes-first', 'the last count, not the zeroes before it'],
  ] as const)('%s: %s', async (sim, _rule) => {
    await Array.fromAsync(await stream(sim));
    const event = await lastEvent(null);
    const [truth] = simulator.requests;
    expect(event).toMatchObject({
      input_tokens: truth!.promptTokens,
      output_tokens: truth!.generatedTokens,
      success: true,
    });
  });

  test('a reported zero is a zero', async () => {
    await Array.fromAsync(await stream('zero-usage'));
    expect(await lastEvent(null)).toMatchObject({ input_tokens: 0, output_tokens: 0, cost_usd: 0 });
  });

  test('a zero reported after the last words is a zero, even if the stream then broke off', async () => {
    // The role, four words, the finish_reason and the usage, but no [DONE].
    const usageReported = { prompt_tokens: 0, completion_tokens: 0 };
    simulator.next({ usage: 'always', usageReported, tokens: 4, fault: { kind: 'cut', afterChunks: 7 } });
    const chunks = await client.chat.completions.create({ model: 'sim-chat', messages, stream: true });
    await expect(Array.fromAsync(chunks)).rejects.toThrow();
    expect(await lastEvent('upstream_error')).toMatchObject({ input_tokens: 0, output_tokens: 0, cost_usd: 0 });
  });

  test('usage reported on its own before the words is not the last of them: a stream that broke off pays for each', async () => {
    const chunks = [
      { choices: [], usage: { prompt_tokens: 9, completion_tokens: 0, total_tokens: 9 } },
      ...['two', ' words'].map((content) => ({ choices: [{ index: 0, delta: { content } }] })),
    ];
    const body = [...chunks, { error: 'lost' }].map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('');
    simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body } });
    const answer = await client.chat.completions.create({ model: 'sim-chat', messages, stream: true });
    await expect(Array.fromAsync(answer)).rejects.toThrow();
    expect(await lastEvent('upstream_error')).toMatchObject({ input_tokens: 9, output_tokens: 2 });
  });

  test('usage that more words followed than it has tokens is not the last of them: what was said is counted, and told', async () => {
    const early = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 };
    const chunks = [
      { choices: [{ index: 0, delta: { role: 'assistant', content: '' } }], usage: early },
      ...['two', ' words'].map((content) => ({ choices: [{ index: 0, delta: { content } }] })),
      { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    ];
    const body = [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]']
      .map((data) => `data: ${data}\n\n`)
      .join('');
    for (const include_usage of [false, true]) {
      await bench.renew();
      simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body } });
      const stream = await bench.client.chat.completions.create({
        model: 'sim-chat',
        messages,
        stream: true,
        stream_options: { include_usage },
      });
      const last = (await Array.fromAsync(stream)).at(-1);
      expect(await lastEvent(null)).toMatchObject({ input_tokens: 9, output_tokens: 2, success: true });
      const told = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 };
      if (include_usage) expect(last).toMatchObject({ choices: [], usage: told });
      else expect(last?.choices[0]?.finish_reason).toBe('stop');
    }
  });

  test.each([
    ['ends', [{ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }, '[DONE]'], true],
    ['breaks off', [{ error: 'lost' }], false],
  ])(
    'nor is usage that long events followed whose words it cannot contain: a stream that %s pays for them',
    async (_how, rest, success) => {
      const paragraph = 'So many words to be said. '.repeat(40);
      const early = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 };
      const events = [
        { choices: [{ index: 0, delta: { role: 'assistant', content: '' } }], usage: early },
        ...[paragraph, paragraph].map((content) => ({ choices: [{ index: 0, delta: { content } }] })),
        ...rest,
      ];
      const body = events
        .map((event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`)
        .join('');
      simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body } });
      const answer = await client.chat.completions.create({ model: 'sim-chat', messages, stream: true });
      const reading = Array.fromAsync(answer);
      if (success) await reading;
      else await expect(reading).rejects.toThrow();
      const output_tokens = await (await loadTokenizer()).count(paragraph + paragraph);
      expect(await bench.event({ success })).toMatchObject({ input_tokens: 9, output_tokens });
    },
  );

  test('reasoning that comes under its old name and its new one, as from vLLM, is charged once', async () => {
    const thought = (text: string) => ({ reasoning: text, reasoning_content: text });
    const words = ['Let', ' me', ' think', ' about', ' this', ' some', ' more', '.'];
    const events = [...words.map((word) => ({ choices: [{ index: 0, delta: thought(word) }] })), { error: 'lost' }];
    const body = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
    simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body } });
    const answer = await client.chat.completions.create({ model: 'sim-chat', messages, stream: true });
    await expect(Array.fromAsync(answer)).rejects.toThrow();
    expect(await lastEvent('upstream_error')).toMatchObject({ output_tokens: words.length });

    await bench.renew();
    const message = { role: 'assistant', content: null, ...thought(words.join('')) };
    const whole = { choices: [{ index: 0, message, finish_reason: 'stop' }] };
    simulator.next({ instead: { status: 200, body: whole } });
    await bench.client.chat.completions.create({ model: 'sim-chat', messages });
    const output_tokens = await (await loadTokenizer()).count(words.join(''));
    expect(await lastEvent(null)).toMatchObject({ output_tokens });
  });

  test.each([
    '{"prompt_tokens":1e400,"completion_tokens":9007199254740993}',
    '{"prompt_tokens":4294967295,"completion_tokens":4294967295}',
  ])('impossibly high counts are ignored, and the gateway counts itself: %s', async (usage) => {
    const choice = '{"index":0,"message":{"role":"assistant","content":"Hello there."},"finish_reason":"stop"}';
    const body = `{"choices":[${choice}],"usage":${usage}}`;
    simulator.next({ instead: { status: 200, contentType: 'application/json', body } });
    await client.chat.completions.create({ model: 'sim-chat', messages });
    const event = await lastEvent(null);
    for (const tokens of [event.input_tokens, event.output_tokens]) {
      expect(tokens).toBeGreaterThan(0);
      expect(tokens).toBeLessThan(20);
    }
    // The key's tokens for the minute are not used up either.
    await chat('plain');
  });

  test('what an upstream never reports is counted', async () => {
    const chunks = await Array.fromAsync(await stream('no-usage'));
    expect(chunks.length).toBeGreaterThan(3);
    const event = await lastEvent(null);
    expect(event.output_tokens).toBeGreaterThan(0);
    expect(event.input_tokens).toBeGreaterThan(0);
  });

  test('media in a prompt are not counted as its words, in whatever shape a server takes them', async () => {
    // As random as real media: a token for every character or two.
    const data = randomBytes(30_000).toString('base64');
    const url = `data:application/octet-stream;base64,${data}`;
    const media = [
      { type: 'image_url', image_url: { url } },
      { type: 'input_audio', input_audio: { data, format: 'wav' } },
      { type: 'file', file: { filename: 'a.pdf', file_data: url } },
      { type: 'video_url', video_url: { url } },
      { type: 'audio_url', audio_url: { url } },
      { type: 'image_embeds', image_embeds: data },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data } },
    ];
    const inputTokens = async (parts: object[], members: object) => {
      const content = [{ type: 'text', text: 'What do you see?' }, ...parts];
      const messages = [
        { role: 'assistant' as const, content: 'Show me.', ...members },
        { role: 'user' as const, content: content as OpenAI.ChatCompletionContentPart[] },
      ];
      await bench.renew();
      await bench.client.chat.completions.create({ model: 'sim-chat', messages, metadata: { sim: 'no-usage' } });
      return (await lastEvent(null)).input_tokens;
    };
    const ofWords = await inputTokens([], {});
    const earlier = { images: [media[0]], reasoning_details: [{ type: 'reasoning.encrypted', data }] };
    expect(await inputTokens(media, earlier)).toBe(ofWords);
    expect(ofWords).toBeGreaterThan(6);
  });

  test('what an upstream never reports is told as metered to a client that asks', async () => {
    const chunks = await Array.fromAsync(await stream('no-usage', { stream_options: { include_usage: true } }));
    const { input_tokens, output_tokens } = await lastEvent(null);
    expect(chunks.filter(({ usage }) => usage !== null)).toEqual([chunks.at(-1)]);
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: {
        prompt_tokens: input_tokens,
        completion_tokens: output_tokens,
        total_tokens: Number(input_tokens) + Number(output_tokens),
      },
    });
  });

  test('comments that are not passed on are no first byte of an answer', async () => {
    const body = ': processing\n\n: processing\n\ndata: {"error":{"code":502,"message":"No provider."}}\n\n';
    simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body } });
    await expect(client.chat.completions.create({ model: 'sim-chat', messages, stream: true })).rejects.toThrow();
    expect(await bench.event({ success: false })).toMatchObject({ ttft_ms: null, cost_usd: 0 });
  });

  test.each([
    ['comments', ': processing\n\n', ''],
    ['usage of its prompt', '', 'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":0}}\n\n'],
  ])('a stream that broke off after %s, before its first words, is free', async (_what, before, after) => {
    const body = `${before}data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n${after}`;
    simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body } });
    const answer = await client.chat.completions.create({ model: 'sim-chat', messages, stream: true });
    await expect(Array.fromAsync(answer)).rejects.toThrow();
    expect(await lastEvent('upstream_error')).toMatchObject({ input_tokens: 0, output_tokens: 0, cost_usd: 0 });
  });

  test('a stream whose client leaves before its first words is free as well', async () => {
    simulator.next({ fault: { kind: 'hang', afterChunks: 1 } });
    for await (const _ of await client.chat.completions.create({ model: 'sim-chat', messages, stream: true })) break;
    expect(await lastEvent('client_closed_request')).toMatchObject({ input_tokens: 0, output_tokens: 0, cost_usd: 0 });
  });

  test.each([
    ['usage at its end alone', {}],
    ['zeroes until its end', { usage: 'zeroes-first' }],
  ] as const)('of an upstream that tells %s a client that leaves pays for what it got', async (_what, behaviour) => {
    simulator.next({ chunkDelayMs: 20, tokens: 1_000, ...behaviour });
    let received = 0;
    for await (const chunk of await client.chat.completions.create({ model: 'sim-chat', messages, stream: true })) {
      if (chunk.choices[0]?.delta.content) received += 1;
      if (received === 5) break;
    }
    const truth = await simulator.waitFor((entry) => entry.outcome === 'client-left', { timeoutMs: 1_000 });
    const event = await lastEvent('client_closed_request');
    expect(event.output_tokens).toBeGreaterThanOrEqual(5);
    expect(event.output_tokens).toBeLessThanOrEqual(truth.generatedTokens);
    expect(event.input_tokens).toBeGreaterThan(0);
  });
});
