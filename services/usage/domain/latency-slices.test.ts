import { expect, test } from 'vitest';
import { latencySlices } from './latency-slices.ts';

const monthMs = 31 * 24 * 3_600_000;
const range = { startMs: Date.UTC(2026, 6, 1), endMs: Date.UTC(2026, 6, 1) + monthMs };

test('up to half a million calls, all are read', () => {
  expect(latencySlices(range, 0)).toEqual([range]);
  expect(latencySlices(range, 500_000)).toEqual([range]);
});

test.each([500_001, 3_000_000, 20_000_000])('%i calls are sampled at every time of day', (calls) => {
  const slices = latencySlices(range, calls);
  const part = (slices.length * 900_000) / monthMs;
  expect(calls * part).toBeLessThanOrEqual(510_000);
  expect(calls * part).toBeGreaterThan(50_000);
  const hours = new Set(slices.map(({ startMs }) => new Date(startMs).getUTCHours()));
  expect(hours.size).toBe(24);
  for (const { startMs, endMs } of slices) {
    expect(startMs % 900_000).toBe(0);
    expect(endMs - startMs).toBe(900_000);
  }
});
