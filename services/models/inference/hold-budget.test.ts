import { expect, test } from 'vitest';
import { freeOfCharge } from '../domain/fixtures/free-of-charge.ts';
import { costRange, usageBound } from './hold-budget.ts';
import { textEstimate } from './prepared-call.ts';

const price = { ...freeOfCharge, inputPerMillionTokens: 1_000_000n };
const model = { contextWindow: 448, maxOutputTokens: 0 };

test("a prompt is held at no more than the model's context window, an audio file at no more than its length", () => {
  const text = textEstimate(10_000, 0);
  expect(costRange({ estimate: text }, model, price).costMaxNanoUsd).toBe(448n);
  const photo = textEstimate(100, 0, { mediaBytes: 3_000_000 });
  expect(costRange({ estimate: photo }, model, price).costMaxNanoUsd).toBe(448n);
  expect(costRange({ estimate: photo }, { ...model, contextWindow: 0 }, price).costMaxNanoUsd).toBe(131_472n);
  // A long video may use more than was held for it, and is charged then.
  expect(usageBound({ estimate: photo }, { ...model, contextWindow: 0 }).allows({ inputTokens: 200_000 })).toBe(true);
  const audio = { ...textEstimate(10_000, 0), audioMs: 1_000_000 };
  expect(costRange({ estimate: audio }, model, price).costMaxNanoUsd).toBe(40_000n);
});
