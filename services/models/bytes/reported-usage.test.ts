import { expect, test } from 'vitest';
import { readUsage } from './reported-usage.ts';

test.each([
  ['chat', { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 }, [9, 4, 13, null]],
  ['images', { input_tokens: 5, output_tokens: 100, total_tokens: 105 }, [5, 100, 105, null]],
  ['a total alone', { total_tokens: 8 }, [null, null, 8, null]],
  ['a length', { type: 'duration', seconds: 1.2345 }, [null, null, 0, 1235]],
  ['a length of nothing', { type: 'duration', seconds: 0 }, [null, null, 0, 0]],
  ['zeros', { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, [0, 0, 0, null]],
])('usage of %s is read as reported', (_what, usage, figures) => {
  const read = readUsage(usage)!;
  expect([read.inputTokens, read.outputTokens, read.totalTokens, read.audioMs]).toEqual(figures);
});

test.each([
  ['what the total leaves over', { prompt_tokens: 9, total_tokens: 13 }, [9, 4]],
  ['what the total leaves over for the input', { completion_tokens: 4, total_tokens: 13 }, [9, 4]],
  ['unknown without a total', { prompt_tokens: 9, completion_tokens: null }, [9, null]],
  ['unknown where the total is of the input alone', { prompt_tokens: 9, total_tokens: 9 }, [9, null]],
  ['unknown where the total is less than a part', { completion_tokens: 9, total_tokens: 4 }, [null, 9]],
])('a figure that is not reported is %s', (_what, usage, [input, output]) => {
  expect(readUsage(usage)).toMatchObject({ inputTokens: input, outputTokens: output });
});

test.each([
  [
    'xAI',
    { prompt_tokens: 32, completion_tokens: 9, total_tokens: 135, completion_tokens_details: { reasoning_tokens: 94 } },
    103,
  ],
  ['Gemini, which tells it by the total alone', { prompt_tokens: 20, completion_tokens: 198, total_tokens: 623 }, 603],
  [
    'OpenAI',
    { prompt_tokens: 9, completion_tokens: 98, total_tokens: 107, completion_tokens_details: { reasoning_tokens: 94 } },
    98,
  ],
])(
  'what was reasoned is output, whether or not it stands beside the words of the answer: %s',
  (_whose, usage, output) => {
    expect(readUsage(usage)).toMatchObject({ inputTokens: usage.prompt_tokens, outputTokens: output });
  },
);

test.each([
  ['OpenAI', { prompt_tokens_details: { cached_tokens: 64 } }],
  ['DeepSeek', { prompt_cache_hit_tokens: 64, prompt_cache_miss_tokens: 36 }],
  ['Moonshot or Together', { cached_tokens: 64 }],
])('cached tokens are read as %s reports them', (_whose, cached) => {
  const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110, ...cached };
  expect(readUsage(usage)).toMatchObject({ inputTokens: 100, cachedInputTokens: 64, outputTokens: 10 });
});

const impossible = [-1, -0.5, 0.5, 12.5, 100_000_001, 2 ** 53 + 2, 1e300, JSON.parse('1e999')];

test.each(impossible)('a figure of %d makes the gateway ignore the whole report', (figure) => {
  const whole = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 };
  for (const name of Object.keys(whole)) expect([name, readUsage({ ...whole, [name]: figure })]).toEqual([name, null]);
  for (const name of ['input_tokens', 'output_tokens', 'total_tokens'])
    expect([name, readUsage({ [name]: figure })]).toEqual([name, null]);
});

test.each([-0.5, -1, 100_001, 2 ** 53 + 2, JSON.parse('1e999')])('%d seconds are not a length of audio', (seconds) => {
  expect(readUsage({ type: 'duration', seconds })).toBeNull();
});

test.each(impossible)('%d cached tokens are treated as not reported', (figure) => {
  for (const details of ['prompt_tokens_details', 'input_tokens_details', 'input_token_details']) {
    const usage = { input_tokens: 9, output_tokens: 4, [details]: { cached_tokens: figure } };
    expect(readUsage(usage)).toMatchObject({ inputTokens: 9, cachedInputTokens: 0, outputTokens: 4 });
  }
});
