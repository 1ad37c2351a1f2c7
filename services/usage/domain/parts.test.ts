import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Part, partsOf } from './parts.ts';
import { bucketStartsMs, instantsOf, parseDay } from './time-buckets.ts';

const quarterMs = 900_000;
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

const cutsOf = (first: string, last: string, timeZone: string, width: 'daily' | 'weekly' | 'hourly') => {
  const range = { firstDay: parseDay(first)!, lastDay: parseDay(last)!, timeZone };
  return [...bucketStartsMs(range, width), instantsOf(range).endMs];
};
const lengthMs = (parts: readonly Part[], tier: Part['tier']) =>
  parts.filter((part) => part.tier === tier).reduce((sum, { startMs, endMs }) => sum + endMs - startMs, 0);

test('whole UTC days need no quarter hours', () => {
  const year = { tier: 'day', startMs: 0, endMs: 365 * dayMs, addTo: 0, takeFrom: null };
  expect(partsOf([0, 365 * dayMs])).toEqual([year]);
});

test('what lies between a cut and its midnight is read once, added on the one side and taken from the other', () => {
  const [firstMs, cutMs, endMs] = [0, 5 * dayMs + 22 * hourMs, 9 * dayMs];
  expect(partsOf([firstMs, cutMs, endMs])).toEqual([
    { tier: 'day', startMs: 0, endMs: 6 * dayMs, addTo: 0, takeFrom: null },
    { tier: 'quarterHour', startMs: cutMs, endMs: 6 * dayMs, addTo: 1, takeFrom: 0 },
    { tier: 'day', startMs: 6 * dayMs, endMs, addTo: 1, takeFrom: null },
  ]);
});

test('ninety local days are read as days and the hours between the two midnights', () => {
  const berlin = partsOf(cutsOf('2026-05-01', '2026-07-29', 'Europe/Berlin', 'daily'));
  expect(lengthMs(berlin, 'quarterHour')).toBe(91 * 2 * hourMs);
  expect(lengthMs(berlin, 'day')).toBe(90 * dayMs);
  const kathmandu = partsOf(cutsOf('2026-05-01', '2026-07-29', 'Asia/Kathmandu', 'daily'));
  expect(lengthMs(kathmandu, 'quarterHour')).toBe(91 * 5.75 * hourMs);
});

test('hours are read as they are', () => {
  const parts = partsOf(cutsOf('2026-07-01', '2026-07-07', 'UTC', 'hourly'));
  expect(parts).toHaveLength(7 * 24);
  expect(lengthMs(parts, 'quarterHour')).toBe(7 * dayMs);
});

test('parts add up to every quarter hour of each bucket, once, and to no other', () => {
  const days = 12;
  const cuts = fc.uniqueArray(fc.nat({ max: days * 96 }), { minLength: 2, maxLength: 12 });
  fc.assert(
    fc.property(cuts, (quarters) => {
      const sorted = quarters.sort((a, b) => a - b);
      const parts = partsOf(sorted.map((quarter) => quarter * quarterMs));
      for (let bucket = 0; bucket < sorted.length - 1; bucket += 1) {
        const counts = new Array<number>((days + 1) * 96).fill(0);
        for (const { tier, startMs, endMs, addTo, takeFrom } of parts) {
          if (tier === 'day') expect([startMs % dayMs, endMs % dayMs]).toEqual([0, 0]);
          const sign = Number(addTo === bucket) - Number(takeFrom === bucket);
          for (let ms = startMs; ms < endMs; ms += quarterMs) counts[ms / quarterMs]! += sign;
        }
        const expected = counts.map((_, quarter) =>
          Number(quarter >= sorted[bucket]! && quarter < sorted[bucket + 1]!),
        );
        expect(counts).toEqual(expected);
      }
    }),
  );
});
