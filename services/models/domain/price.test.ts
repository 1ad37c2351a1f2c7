import fc from 'fast-check';
import { expect, test } from 'vitest';
import { costNanoUsdMax } from '#shared/money.ts';
import { freeOfCharge } from './fixtures/free-of-charge.ts';
import { type Measures, noMeasures, type PriceVersion, priceAt, priceNow, priceUsage } from './price.ts';

const price: PriceVersion = {
  id: 'v1',
  effectiveFromMs: 1_000,
  appliesAtOnce: false,
  inputPerMillionTokens: 150_000_000n,
  cachedInputPerMillionTokens: 75_000_000n,
  outputPerMillionTokens: 600_000_000n,
  perImage: 40_000_000n,
  perAudioSecond: 100_000n,
  perMillionCharacters: 15_000_000_000n,
  perRequest: 7n,
};
const used = (measures: Partial<Measures>): Measures => ({ ...noMeasures, ...measures });

test.each<[string, Partial<Measures>, bigint]>([
  ['a request by itself', {}, 7n],
  ['tokens', { inputTokens: 1_000, outputTokens: 100 }, 7n + 150_000n + 60_000n],
  [
    'cached tokens, which are part of the input',
    { inputTokens: 1_000, cachedInputTokens: 400 },
    7n + 90_000n + 30_000n,
  ],
  ['no more cached tokens than there are', { inputTokens: 10, cachedInputTokens: 99 }, 7n + 750n],
  ['images', { images: 3 }, 7n + 120_000_000n],
  ['audio, by the millisecond', { audioMs: 1_500 }, 7n + 150_000n],
  ['characters', { characters: 4_096 }, 7n + 61_440_000n],
])('%s cost what the version says', (_name, measures, cost) => {
  expect(priceUsage(price, used(measures))).toBe(cost);
});

test('no call costs more than Usage can store, whatever its upstream or its price says', () => {
  const dear = { ...price, perImage: 9_000_000_000_000_000_000n };
  expect(priceUsage(dear, used({ images: 1_000 }))).toBe(costNanoUsdMax);
});

test('a cost is rounded once, at its end, half up to a whole nano-USD', () => {
  const half = { ...freeOfCharge, inputPerMillionTokens: 500_000n };
  expect(priceUsage(half, used({ inputTokens: 1 }))).toBe(1n);
  expect(priceUsage({ ...half, inputPerMillionTokens: 499_999n }, used({ inputTokens: 1 }))).toBe(0n);
  // Two halves are one, not two: the parts are not rounded.
  const halves = { ...half, outputPerMillionTokens: 500_000n };
  expect(priceUsage(halves, used({ inputTokens: 1, outputTokens: 1 }))).toBe(1n);
});

test('for any price and usage the cost is the exact sum, rounded half up, or the most that a call may cost', () => {
  // Of every size: small sums are computed in doubles.
  const rate = fc.oneof(
    fc.bigInt({ min: 0n, max: 10n ** 15n }),
    fc.bigInt({ min: 0n, max: 10n ** 10n }),
    fc.bigInt({ min: 0n, max: 1_000n }),
  );
  const count = fc.oneof(fc.nat({ max: 10_000_000 }), fc.nat({ max: 1_000 }), fc.constant(0));
  fc.assert(
    fc.property(
      fc.tuple(rate, rate, rate, rate, rate, rate, rate),
      fc.tuple(count, count, count, count, count, count),
      (rates, counts) => {
        const [input, cachedInput, output, image, audio, characters, request] = rates;
        const [inputTokens, cached, outputTokens, images, audioMs, characterCount] = counts;
        const cachedInputTokens = Math.min(cached, inputTokens);
        const cost = priceUsage(
          {
            ...price,
            inputPerMillionTokens: input,
            cachedInputPerMillionTokens: cachedInput,
            outputPerMillionTokens: output,
            perImage: image,
            perAudioSecond: audio,
            perMillionCharacters: characters,
            perRequest: request,
          },
          { inputTokens, cachedInputTokens, outputTokens, images, audioMs, characters: characterCount },
        );
        // In billionths of a nano-USD, so that nothing is divided: the cost is the nearest whole number to it.
        const scale = 10n ** 9n;
        const exact =
          BigInt(inputTokens - cachedInputTokens) * input * 1_000n +
          BigInt(cachedInputTokens) * cachedInput * 1_000n +
          BigInt(outputTokens) * output * 1_000n +
          BigInt(characterCount) * characters * 1_000n +
          BigInt(audioMs) * audio * 1_000_000n +
          (BigInt(images) * image + request) * scale;
        if (cost === costNanoUsdMax) return exact >= (costNanoUsdMax - 1n) * scale;
        const off = 2n * (cost * scale - exact);
        return -scale < off && off <= scale;
      },
    ),
  );
});

test('where doubles become inexact, nothing is rounded to a neighbouring value', () => {
  for (let cost = 9_007_199_200n; cost < 9_007_199_400n; cost += 1n) {
    const justBelowHalf = { ...freeOfCharge, inputPerMillionTokens: cost * 1_000_000n + 499_999n };
    expect(priceUsage(justBelowHalf, used({ inputTokens: 1 }))).toBe(cost);
    const half = { ...freeOfCharge, inputPerMillionTokens: cost * 1_000_000n + 500_000n };
    expect(priceUsage(half, used({ inputTokens: 1 }))).toBe(cost + 1n);
  }
});

test('the version in force is the newest that has started; before the first there is none', () => {
  const later = { ...price, id: 'v2', effectiveFromMs: 2_000 };
  const versions = [price, later];
  expect([999, 1_000, 1_999, 2_000, 9_999].map((ms) => priceAt(versions, ms)?.id)).toEqual([
    undefined,
    'v1',
    'v1',
    'v2',
    'v2',
  ]);
  expect(priceAt([], 5_000)).toBeNull();
});

test('a version that applies at once is in force for whoever knows of it, unless one of later has started', () => {
  const atOnce = { ...price, id: 'v2', effectiveFromMs: 2_000, appliesAtOnce: true };
  const later = { ...price, id: 'v3', effectiveFromMs: 3_000 };
  expect([0, 1_000, 2_999, 3_000].map((ms) => priceNow([price, atOnce, later], ms)?.id)).toEqual([
    'v2',
    'v2',
    'v2',
    'v3',
  ]);
  expect(priceNow([price], 999)).toBeNull();
});
