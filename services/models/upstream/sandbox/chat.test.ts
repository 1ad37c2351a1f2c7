import { countTokens, encodeChat } from 'gpt-tokenizer/model/gpt-4o';
import { describe, expect, test } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { askEvents, askJson } from './fixtures/test-exchange.ts';

const chat = (fields: object, status?: number) =>
  askJson(Operation.CHAT_COMPLETIONS, { model: 'sandbox-chat', ...fields }, status);
const chatEvents = (fields: object) =>
  askEvents(Operation.CHAT_COMPLETIONS, { model: 'sandbox-chat', stream: true, ...fields });
const user = (content: unknown) => [{ role: 'user', content }];
const asPlainText = { disallowedSpecial: new Set<string>() };
const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
};
const time = { type: 'function', function: { name: 'get_time' } };

describe('text', () => {
  test('has the shape of a chat completion and says that it is the sandbox', async () => {
    const answer = await chat({ messages: user('Tell me about red pandas') });
    expect(answer).toMatchObject({
      object: 'chat.completion',
      model: 'sandbox-chat',
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant' } }],
    });
    expect(answer.id).toMatch(/^chatcmpl-/);
    expect(answer.choices[0].message.content).toMatch(/sandbox/i);
    expect(answer.choices[0].message.content).toContain('red pandas');
  });

  test('the same request gets the same answer, and a different one a different answer', async () => {
    const [first, again, other] = await Promise.all(
      ['one', 'one', 'two'].map((text) => chat({ messages: user(text), created: 0 })),
    );
    expect({ ...again, created: 0 }).toEqual({ ...first, created: 0 });
    expect(other.choices[0].message.content).not.toBe(first.choices[0].message.content);
  });

  test('usage counts what gpt-tokenizer counts', async () => {
    const messages = [
      { role: 'system', content: 'You are terse.' },
      { role: 'user', content: 'Grüße 🦊 <|endoftext|>, what is 2 + 2?' },
    ] as const;
    const { usage, choices } = await chat({
      messages: messages.map((m) => ({ ...m, content: [{ type: 'text', text: m.content }] })),
    });
    const plain = messages.map((m) => ({ ...m, content: m.content.replace('<|endoftext|>', '') }));
    const special = countTokens(messages[1].content, asPlainText) - countTokens(plain[1]!.content);
    expect(usage.prompt_tokens).toBe(encodeChat(plain).length + special);
    expect(usage.completion_tokens).toBe(countTokens(choices[0].message.content, asPlainText));
    expect(usage.total_tokens).toBe(usage.prompt_tokens + usage.completion_tokens);
    expect(usage.prompt_tokens_details.cached_tokens).toBe(0);
  });

  test.each(['max_tokens', 'max_completion_tokens'])('%s ends the text with finish_reason length', async (field) => {
    const full = (await chat({ messages: user('🦊🦊🦊 say something') })).choices[0].message.content;
    for (const limit of [1, 7, 40]) {
      const { choices, usage } = await chat({ messages: user('🦊🦊🦊 say something'), [field]: limit });
      expect(choices[0].finish_reason).toBe('length');
      expect(usage.completion_tokens).toBe(limit);
      expect(full.startsWith(choices[0].message.content)).toBe(true);
      expect(choices[0].message.content.length).toBeLessThan(full.length);
    }
  });

  test.each([{ stream: false }, { stream: true }])('logprobs list the tokens of the text: %j', async ({ stream }) => {
    const fields = { messages: user('🦩🦩 漢字'), logprobs: true, top_logprobs: 3 };
    const answer = await chat(fields);
    const { content } = answer.choices[0].message;
    const chunks = stream ? (await chatEvents(fields)).slice(0, -1).map((chunk) => chunk.choices[0]) : [];
    for (const { delta, logprobs } of chunks.slice(1, -1)) {
      const spelled = logprobs.content.flatMap(({ bytes }: { bytes: number[] }) => bytes);
      expect(Buffer.from(spelled).toString()).toBe(delta.content);
    }
    const listed = stream
      ? chunks.flatMap(({ logprobs }) => logprobs?.content ?? [])
      : answer.choices[0].logprobs.content;
    expect(listed).toHaveLength(answer.usage.completion_tokens);
    expect(Buffer.from(listed.flatMap(({ bytes }: { bytes: number[] }) => bytes)).toString()).toBe(content);
    for (const { token, logprob, bytes, top_logprobs } of listed) {
      expect(top_logprobs[0]).toEqual({ token, logprob, bytes });
      expect(new Set(top_logprobs.map((candidate: { token: string }) => candidate.token)).size).toBe(3);
      const probabilities = top_logprobs.map((candidate: { logprob: number }) => Math.exp(candidate.logprob));
      expect(probabilities).toEqual([...probabilities].sort((a, b) => b - a));
      expect(probabilities.reduce((sum: number, probability: number) => sum + probability)).toBeLessThan(1);
    }
    expect(
      (await chat({ messages: user('hello'), logprobs: true })).choices[0].logprobs.content[0].top_logprobs,
    ).toEqual([]);
  });

  test('more tokens than an answer can list, or candidates without tokens, are a 400', async () => {
    const { error } = await chat({ messages: user('900 words'), logprobs: true, top_logprobs: 20, n: 9 }, 400);
    expect(error).toMatchObject({ param: 'top_logprobs', type: 'invalid_request_error' });
    expect((await chat({ messages: user('hello'), top_logprobs: 2 }, 400)).error.param).toBe('top_logprobs');
  });

  test('stop ends the text before the sequence', async () => {
    const { choices } = await chat({ messages: user('hello'), stop: ['nowhere to be found', 'sandbox'] });
    expect(choices[0]).toMatchObject({ finish_reason: 'stop' });
    expect(choices[0].message.content).not.toContain('sandbox');
  });

  test('n gives that many different choices', async () => {
    const { choices } = await chat({ messages: user('hello'), n: 3 });
    expect(choices.map((choice: { index: number }) => choice.index)).toEqual([0, 1, 2]);
    expect(new Set(choices.map((choice: { message: { content: string } }) => choice.message.content)).size).toBe(3);
  });

  test('"… words" sets the length', async () => {
    const { choices } = await chat({ messages: user('Write 500 words about rain') });
    expect(choices[0].message.content.split(' ')).toHaveLength(500);
  });
});

describe('stream', () => {
  test.each([
    { messages: user('Tell me about 狐狸 and 🦊🦊🦊 and a veryveryveryveryveryveryveryverylongword\n\nplease') },
    { messages: user('use get_weather and get_time'), tools: [weather, time] },
    { messages: user('use get_weather'), functions: [weather.function] },
    { messages: user('hello'), n: 2 },
  ])('its deltas spell the unstreamed answer', async (fields) => {
    const whole = await chat(fields);
    const events = await chatEvents(fields);
    expect(events.at(-1)).toBe('[DONE]');
    const chunks = events.slice(0, -1);
    expect(new Set(chunks.map((chunk) => `${chunk.id} ${chunk.created} ${chunk.object}`)).size).toBe(1);
    for (const expected of whole.choices) {
      const mine = chunks.map((chunk) => chunk.choices[0]).filter((choice) => choice.index === expected.index);
      expect(mine[0].delta.role).toBe('assistant');
      expect(mine.map((choice) => choice.finish_reason).filter((reason) => reason !== null)).toEqual([
        expected.finish_reason,
      ]);
      expect(mine.at(-1).finish_reason).toBe(expected.finish_reason);
      expect(mine.map((choice) => choice.delta.content ?? '').join('')).toBe(expected.message.content ?? '');
      const calls = mine.flatMap((choice) => choice.delta.tool_calls ?? []);
      for (const [index, call] of (expected.message.tool_calls ?? []).entries()) {
        const parts = calls.filter((part) => part.index === index);
        expect(parts[0]).toMatchObject({
          id: expect.any(String),
          type: 'function',
          function: { name: call.function.name },
        });
        expect(parts.map((part) => part.function.arguments).join('')).toBe(call.function.arguments);
      }
      const called = mine.flatMap((choice) => choice.delta.function_call ?? []);
      expect(called[0]?.name).toBe(expected.message.function_call?.name);
      expect(called.map((part) => part.arguments).join('')).toBe(expected.message.function_call?.arguments ?? '');
    }
  });

  test('usage comes in a chunk without choices before [DONE], and only if asked for', async () => {
    const messages = user('hello');
    const { usage } = await chat({ messages });
    const asked = await chatEvents({ messages, stream_options: { include_usage: true } });
    expect(asked.at(-2)).toMatchObject({ choices: [], usage });
    expect(asked.slice(0, -2).every((chunk) => chunk.usage === null)).toBe(true);
    expect((await chatEvents({ messages })).some((chunk) => 'usage' in Object(chunk))).toBe(false);
  });
});

describe('tools', () => {
  const messages = user('What does get weather say?');

  test('are called when the user names them, with arguments from the schema', async () => {
    const { choices } = await chat({ messages, tools: [weather, time] });
    expect(choices[0].finish_reason).toBe('tool_calls');
    expect(choices[0].message.content).toBeNull();
    expect(choices[0].message.tool_calls.map((call: { function: object }) => call.function)).toEqual([
      { name: 'get_weather', arguments: '{"city":"sandbox"}' },
    ]);
  });

  test('are called only while their result is missing', async () => {
    const { choices } = await chat({
      messages: [...messages, { role: 'tool', tool_call_id: 'x', content: '21 °C' }],
      tools: [weather],
    });
    expect(choices[0].finish_reason).toBe('stop');
    expect(choices[0].message.content).toContain('21 °C');
  });

  test.each([
    ['required', ['get_time']],
    [{ type: 'function', function: { name: 'get_weather' } }, ['get_weather']],
    ['none', []],
    ['auto', []],
  ])('tool_choice %j decides', async (tool_choice, names) => {
    const { choices } = await chat({ messages: user('hello'), tools: [time, weather], tool_choice });
    const calls = choices[0].message.tool_calls ?? [];
    expect(calls.map((call: { function: { name: string } }) => call.function.name)).toEqual(names);
  });

  test('streamed arguments are never cut inside a character', async () => {
    const parameters = { const: `xy${'🦊'.repeat(20)}` };
    const tools = [{ type: 'function', function: { name: 'fox', parameters } }];
    const events = await chatEvents({ messages: user('fox'), tools });
    const parts = events.slice(0, -1).flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
    expect(parts.length).toBeGreaterThan(2);
    expect(parts.every((part) => part.function.arguments.isWellFormed())).toBe(true);
  });

  test('max_tokens is for all calls together', async () => {
    const fields = { messages: user('get_weather and get_time'), tools: [weather, time] };
    const { usage } = await chat(fields);
    const cut = await chat({ ...fields, max_tokens: usage.completion_tokens - 1 });
    expect(cut.usage.completion_tokens).toBe(usage.completion_tokens - 1);
    expect(cut.choices[0].finish_reason).toBe('length');
  });

  test.each([{}, { $schema: 'http://json-schema.org/draft-07/schema#' }, null])(
    'arguments are an object even if the schema %j does not say so',
    async (parameters) => {
      const tools = [{ type: 'function', function: { name: 'fox', parameters } }];
      const { choices } = await chat({ messages: user('fox'), tools });
      expect(choices[0].message.tool_calls[0].function.arguments).toBe('{}');
    },
  );

  test('however many are named, their arguments are bounded together', async () => {
    const parameters = { minProperties: 4_000 };
    const tools = Array.from({ length: 128 }, () => ({ ...weather, function: { ...weather.function, parameters } }));
    const { error } = await chat({ messages, tools }, 400);
    expect(error.message).toContain('its smallest value is too large');
  });

  test('parallel_tool_calls false allows one call', async () => {
    const fields = { messages: user('get_weather and get_time'), tools: [weather, time] };
    expect((await chat(fields)).choices[0].message.tool_calls).toHaveLength(2);
    expect((await chat({ ...fields, parallel_tool_calls: false })).choices[0].message.tool_calls).toHaveLength(1);
  });
});

describe('functions, the older form of tools', () => {
  const functions = [time.function, weather.function];

  test.each([
    ['hello', { name: 'get_weather' }, { name: 'get_weather', arguments: '{"city":"sandbox"}' }],
    ['What does get weather say?', undefined, { name: 'get_weather', arguments: '{"city":"sandbox"}' }],
    ['get_weather and get_time', 'auto', { name: 'get_time', arguments: '{}' }],
    ['get_weather', 'none', undefined],
    ['hello', 'auto', undefined],
  ])('after %j with function_call %j one at most is called', async (text, function_call, called) => {
    const { choices } = await chat({ messages: user(text), functions, function_call });
    expect(choices[0].message.function_call).toEqual(called);
    expect(choices[0].message.tool_calls).toBeUndefined();
    expect(choices[0].finish_reason).toBe(called === undefined ? 'stop' : 'function_call');
  });

  test('are called only while their result is missing', async () => {
    const messages = [...user('get_weather'), { role: 'function', name: 'get_weather', content: '21 °C' }];
    const { choices } = await chat({ messages, functions });
    expect(choices[0].finish_reason).toBe('stop');
    expect(choices[0].message.content).toContain('21 °C');
  });

  test('count as part of the prompt, and so do the calls of earlier answers', async () => {
    const tokens = async (fields: object) => (await chat(fields)).usage.prompt_tokens;
    const called = { role: 'assistant', content: null };
    const function_call = { name: 'get_weather', arguments: '{"city":"sandbox"}' };
    expect(await tokens({ messages: user('hello'), functions })).toBeGreaterThan(
      await tokens({ messages: user('hello') }),
    );
    expect(await tokens({ messages: [{ ...called, function_call }] })).toBeGreaterThan(
      await tokens({ messages: [called] }),
    );
  });
});

describe('refusals', () => {
  test('a prompt beyond the window is a 400 that names the maximum context length', async () => {
    const { error } = await chat({ model: 'sandbox-chat-mini', messages: user('word '.repeat(17_000)) }, 400);
    expect(error).toMatchObject({ code: 'context_length_exceeded', type: 'invalid_request_error', param: 'messages' });
    expect(error.message).toContain('maximum context length is 16384 tokens');
  });

  test.each([
    [{}, 'messages'],
    [{ messages: [] }, 'messages'],
    [{ messages: [{ content: 'x' }] }, 'messages[0].role'],
    [{ messages: [{ role: 'user', content: 5 }] }, 'messages[0].content'],
    [{ messages: user('x'), n: 0 }, 'n'],
    [{ messages: user('x'), stream: 'yes' }, 'stream'],
    [{ messages: user('x'), max_tokens: 1.5 }, 'max_tokens'],
    [{ messages: user('x'), max_tokens: 99_999 }, 'max_tokens'],
    [{ messages: user('x'), max_completion_tokens: 99_999 }, 'max_completion_tokens'],
    [{ messages: user('x'), stop: [1] }, 'stop'],
    [{ messages: user('x'), tools: [{ type: 'function' }] }, 'tools'],
    [
      { messages: user('x'), tools: [time], tool_choice: { type: 'function', function: { name: 'no' } } },
      'tool_choice',
    ],
    [{ messages: user('x'), tool_choice: 'required' }, 'tool_choice'],
    [{ messages: user('x'), functions: [time] }, 'functions'],
    [{ messages: user('x'), functions: [time.function], function_call: { name: 'no' } }, 'function_call'],
    [{ messages: user('x'), functions: [time.function], function_call: 'required' }, 'function_call'],
    [{ messages: user('x'), response_format: { type: 'yaml' } }, 'response_format.type'],
    [{ messages: user('x'), model: 'sandbox-embed' }, 'model'],
  ])('%j is a 400 for %s', async (fields, param) => {
    const { error } = await chat(fields, 400);
    expect(error).toMatchObject({ type: 'invalid_request_error', param });
    expect(Object.keys(error).sort()).toEqual(['code', 'message', 'param', 'type']);
  });

  test.each([
    ['tools', time],
    ['functions', time.function],
  ])('more %s than 128 are a 400', async (param, one) => {
    expect(await chat({ messages: user('x'), [param]: Array(128).fill(one) })).toHaveProperty('choices');
    const { error } = await chat({ messages: user('x'), [param]: Array(129).fill(one) }, 400);
    expect(error).toMatchObject({ param, code: 'array_above_max_length' });
  });

  test('an unknown model is a 404', async () => {
    const { error } = await chat({ messages: user('x'), model: 'gpt-4o' }, 404);
    expect(error.code).toBe('model_not_found');
  });

  test.each(['{', '[]', 'null'])('the body %j is a 400', async (body) => {
    expect((await askJson(Operation.CHAT_COMPLETIONS, body, 400)).error.type).toBe('invalid_request_error');
  });
});
