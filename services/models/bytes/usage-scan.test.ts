import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { objectText, trials, trialTimeoutMs, writtenMembers } from './fixtures/json-text.ts';
import { readUsage } from './reported-usage.ts';
import { readResponseUsage } from './usage-scan.ts';

const nothing = { cachedInputTokens: 0, outputTokens: 0, audioInputTokens: 0, audioMs: 0 };
const usageTexts = [
  '{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}',
  '{"prompt_tokens":5, "prompt_tokens_details":{"cached_tokens":2},"usage":{"prompt_tokens":99}}',
  '{"input_tokens":1,"output_tokens":0,"total_tokens":1}',
];

/** Responses: any document, with usage objects at the top, and look-alikes of them anywhere. */
const responses = objectText(
  fc
    .tuple(
      writtenMembers(['usage', 'service_tier']),
      fc.array(
        fc.tuple(
          fc.constantFrom('"usage"', '"us\\u0061ge"', '"x"', '"service_tier"'),
          fc.constantFrom(...usageTexts, '"flex"', '"usage"'),
        ),
        {
          maxLength: 3,
        },
      ),
    )
    .map(([members, more]) => [
      ...members,
      ...more.map(([nameText, valueText]) => ({ name: JSON.parse(nameText) as string, nameText, valueText })),
    ]),
);

test(
  'any response has the usage and tier that JSON.parse finds at its top',
  () => {
    fc.assert(
      fc.property(responses, ({ text, members }) => {
        // A tier before the usage is looked for as it is written.
        fc.pre(!members.some(({ name, nameText }) => name === 'service_tier' && nameText.includes('\\')));
        const whole = JSON.parse(text) as Record<string, unknown>;
        const tier = whole.service_tier;
        expect(readResponseUsage(Buffer.from(text))).toEqual({
          usage: readUsage(whole.usage),
          serviceTier: typeof tier === 'string' ? tier : null,
        });
      }),
      trials,
    );
  },
  trialTimeoutMs,
);

test('a response cut anywhere has no usage', () => {
  const whole = Buffer.from(
    `{"id":"x","choices":[{"message":{"content":"\\"usage\\""}}],"usage":${usageTexts[0]},"a":"b"}`,
  );
  for (let cut = 0; cut < whole.length; cut += 1) {
    expect(readResponseUsage(whole.subarray(0, cut))).toEqual({ usage: null, serviceTier: null });
  }
  expect(readResponseUsage(whole).usage).toMatchObject({ inputTokens: 3, outputTokens: 4 });
});

describe('usage is read as', () => {
  test.each([
    [
      'chat',
      {
        prompt_tokens: 20,
        completion_tokens: 8,
        total_tokens: 28,
        prompt_tokens_details: { cached_tokens: 16, audio_tokens: 2 },
        completion_tokens_details: { reasoning_tokens: 4 },
      },
      { inputTokens: 20, cachedInputTokens: 16, outputTokens: 8, totalTokens: 28, audioInputTokens: 2, audioMs: 0 },
    ],
    ['embeddings', { prompt_tokens: 5, total_tokens: 5 }, { ...nothing, inputTokens: 5, totalTokens: 5 }],
    ['embeddings, total only', { total_tokens: 5 }, { ...nothing, inputTokens: 5, totalTokens: 5 }],
    [
      'images',
      { input_tokens: 9, output_tokens: 1000, total_tokens: 1009, input_tokens_details: { text_tokens: 9 } },
      { ...nothing, inputTokens: 9, outputTokens: 1000, totalTokens: 1009 },
    ],
    [
      'transcription by tokens',
      {
        type: 'tokens',
        input_tokens: 14,
        output_tokens: 3,
        total_tokens: 17,
        input_token_details: { audio_tokens: 14 },
      },
      { ...nothing, inputTokens: 14, outputTokens: 3, totalTokens: 17, audioInputTokens: 14 },
    ],
    [
      'transcription by length',
      { type: 'duration', seconds: 3.2 },
      { ...nothing, inputTokens: 0, totalTokens: 0, audioMs: 3200 },
    ],
    [
      'zeros that were reported',
      { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
      { ...nothing, inputTokens: 0, totalTokens: 0 },
    ],
    [
      'zeros for what is no count',
      {
        prompt_tokens: -5,
        completion_tokens: '7',
        total_tokens: Number.NaN,
        prompt_tokens_details: { cached_tokens: 3 },
      },
      { ...nothing, inputTokens: 0, totalTokens: 0 },
    ],
    [
      'nothing cached where more is said to be than any call has',
      { prompt_tokens: 5, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 1e9 } },
      { ...nothing, inputTokens: 5, outputTokens: 1, totalTokens: 6 },
    ],
  ])('%s', (_, usage, expected) => {
    expect(readUsage(usage)).toEqual(expected);
  });

  test.each([[null], [undefined], [[]], ['x'], [{}], [{ cost: 1 }]])('nothing: %j', (usage) => {
    expect(readUsage(usage)).toBeNull();
  });

  test.each([
    '{"prompt_tokens":1e400,"completion_tokens":1}',
    '{"prompt_tokens":1,"completion_tokens":9007199254740993}',
    '{"input_tokens":1,"output_tokens":4294967295}',
    '{"total_tokens":4294967295}',
    '{"type":"duration","seconds":4294967295}',
  ])('nothing where a count is beyond what any call uses: %s', (usage) => {
    expect(readUsage(JSON.parse(usage))).toBeNull();
  });
});
