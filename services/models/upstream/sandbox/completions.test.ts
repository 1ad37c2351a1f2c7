import { countTokens, encode } from 'gpt-tokenizer/encoding/o200k_base';
import { expect, test } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { askEvents, askJson } from './fixtures/test-exchange.ts';

const complete = (fields: object, status?: number) =>
  askJson(Operation.COMPLETIONS, { model: 'sandbox-chat', max_tokens: 200, ...fields }, status);
const texts = (answer: { choices: { text: string }[] }) => answer.choices.map((choice) => choice.text);

test('a prompt of text and the same prompt of tokens get the same answer', async () => {
  const prompt = 'Once upon a time';
  const answer = await complete({ prompt });
  expect(answer).toMatchObject({
    object: 'text_completion',
    choices: [{ index: 0, finish_reason: 'stop', logprobs: null }],
  });
  expect(answer.usage).toMatchObject({
    prompt_tokens: countTokens(prompt),
    completion_tokens: countTokens(answer.choices[0].text),
  });
  const fromTokens = await complete({ prompt: encode(prompt) });
  expect(texts(fromTokens)).toEqual(texts(answer));
  expect(fromTokens.usage).toEqual(answer.usage);
});

test('several prompts with n return their choices in order', async () => {
  const answer = await complete({ prompt: ['alpha', 'beta'], n: 2, echo: true });
  expect(answer.choices.map((choice: { index: number }) => choice.index)).toEqual([0, 1, 2, 3]);
  expect(texts(answer).map((text) => text.slice(0, 4))).toEqual(['alph', 'alph', 'beta', 'beta']);
  expect(answer.usage.prompt_tokens).toBe(countTokens('alpha') + countTokens('beta'));
  const nested = await complete({ prompt: [encode('alpha'), encode('beta')], n: 2, echo: true });
  expect(texts(nested)).toEqual(texts(answer));
});

test('logprobs list the tokens of an echoed prompt and of the answer, streamed or not', async () => {
  const fields = { prompt: 'Once 🦩 upon', echo: true, logprobs: 2, max_tokens: 5 };
  const { choices, usage } = await complete(fields);
  const { tokens, token_logprobs, top_logprobs, text_offset } = choices[0].logprobs;
  expect(tokens).toHaveLength(usage.total_tokens);
  expect(tokens.slice(0, 4)).toEqual(['Once', ' \\xf0\\x9f', '\\xa6', '\\xa9']);
  expect([token_logprobs[0], top_logprobs[0]]).toEqual([null, null]);
  for (const [i, top] of top_logprobs.entries()) {
    if (i === 0) continue;
    expect(Object.keys(top)).toHaveLength(2);
    expect(top[tokens[i]]).toBe(token_logprobs[i]);
    expect(token_logprobs[i]).toBeLessThan(0);
  }
  const { text } = choices[0];
  expect(text.slice(text_offset.at(-1))).toBe(tokens.at(-1));
  const events = await askEvents(Operation.COMPLETIONS, { model: 'sandbox-chat', ...fields, stream: true });
  const streamed = events.slice(0, -1).flatMap((chunk) => chunk.choices[0].logprobs ?? []);
  expect(streamed.flatMap((logprobs) => logprobs.tokens)).toEqual(tokens);
  expect(streamed.flatMap((logprobs) => logprobs.token_logprobs)).toEqual(token_logprobs);
  expect(streamed.flatMap((logprobs) => logprobs.text_offset)).toEqual(text_offset);
  expect((await complete({ ...fields, prompt: Array(128).fill('word '.repeat(500)) }, 400)).error.param).toBe(
    'logprobs',
  );
});

test.each([{ stream: false }, { stream: true }])(
  'a small request cannot ask for gigabytes of echoes: %j',
  async (how) => {
    const prompt = Array.from({ length: 64 }, (_, i) => `${i}${'-'.repeat(20_000)}`);
    const request = { prompt, echo: true, max_tokens: 1, ...how };
    const { error } = await complete({ ...request, n: 2 }, 400);
    expect(error).toMatchObject({ param: 'echo', type: 'invalid_request_error' });
    expect(error.message).toContain('at most 2000000 fit');
  },
);

test('a prompt that fits is a 400 when the answer asked for does not fit beside it', async () => {
  const prompt = 'word '.repeat(13_000);
  await complete({ model: 'sandbox-chat-mini', prompt, max_tokens: 1_000 });
  const { error } = await complete({ model: 'sandbox-chat-mini', prompt, max_tokens: 4_000 }, 400);
  expect(error).toMatchObject({ code: 'context_length_exceeded', param: 'prompt' });
});

test('without max_tokens an answer ends after 16 tokens', async () => {
  const answer = await complete({ prompt: 'hello', max_tokens: undefined });
  expect(answer.choices[0].finish_reason).toBe('length');
  expect(answer.usage.completion_tokens).toBe(16);
});

test('a stream spells the unstreamed answer', async () => {
  const fields = { model: 'sandbox-chat', max_tokens: 30, prompt: ['one', 'two'] };
  const whole = await complete(fields);
  const events = await askEvents(Operation.COMPLETIONS, {
    ...fields,
    stream: true,
    stream_options: { include_usage: true },
  });
  expect(events.at(-1)).toBe('[DONE]');
  expect(events.at(-2)).toMatchObject({ choices: [], usage: whole.usage });
  for (const expected of whole.choices) {
    const mine = events
      .slice(0, -2)
      .map((chunk) => chunk.choices[0])
      .filter((choice) => choice.index === expected.index);
    expect(mine.map((choice) => choice.text).join('')).toBe(expected.text);
    expect(mine.at(-1).finish_reason).toBe('length');
  }
});

test.each([[[]], [5], [[1, 'x']], [[-1]], [[10_000_000]], [[[]]], [[{}]]])('the prompt %j is a 400', async (prompt) => {
  expect((await complete({ prompt }, 400)).error.param).toBe('prompt');
});
