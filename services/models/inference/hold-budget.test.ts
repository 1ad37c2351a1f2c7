import { expect, test } from 'vitest';
import type { PriceVersion } from '../domain/price.ts';
import { costRange } from './hold-budget.ts';
import { textEstimate } from './prepared-call.ts';

const price: PriceVersion = {
  id: '',
  effectiveFromMs: 0,
  inputPerMillionTokens: 1_000_000n,
  cachedInputPerMillionTokens: 0n,
  outputPerMillionTokens: 0n,
  perImage: 0n,
  perAudioSecond: 0n,
  perMillionCharacters: 0n,
  perRequest: 0n,
};
const model = { contextWindow: 448, maxOutputTokens: 0 };

test("a prompt costs no more than the model's context window, an audio file as much as its length", () => {
  const text = textEstimate(10_000, 0);
  expect(costRange({ estimate: text }, model, price).costMaxNanoUsd).toBe(448n);
  const audio = { ...textEstimate(10_000, 0), audioMs: 1_000_000 };
  expect(costRange({ estimate: audio }, model, price).costMaxNanoUsd).toBe(40_000n);
});
