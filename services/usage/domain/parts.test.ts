import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseDay } from '#shared/iso-time.ts';
import { type Part, partsOf } from './parts.ts';
import { type BucketWidth, bucketStartsMs, instantsOf } from './time-buckets.ts';

const quarterMs = 900_000;
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

const cutsOf = (first: string, last: string, timeZone: string, width: BucketWidth) => {
  const range = { firstDay: parseDay(first)!, lastDay: parseDay(last)!, timeZone };
  return [...bucketStartsMs(range, width), instantsOf(range).endMs];
};
const lengthMs = (parts: readonly Part[], tier: Part['tier']) =>
  parts.filter((part) => part.tier === tier).reduce((sum, { startMs, endMs }) => sum + endMs - startMs, 0);

test('a year of UTC days is weeks from Monday on, and at either end the days to the nearest Monday', () => {
  // 1970 began and ended on a Thursday.
  expect(partsOf([0, 365 * dayMs])).toEqual([
    { tier: 'day', startMs: -3 * dayMs, endMs: 0, addTo: null, takeFrom: 0 },
    { tier: 'day', startMs: 365 * dayMs, endMs: 368 * dayMs, addTo: null, takeFrom: 0 },
    { tier: 'week', startMs: -3 * dayMs, endMs: 368 * dayMs, addTo: 0, takeFrom: null },
  ]);
});

test('what lies between a cut and its midnight is read once, added on one side and subtracted on the other', () => {
  const [firstMs, cutMs, endMs] = [0, 2 * dayMs + 22 * hourMs, 6 * dayMs];
  expect(partsOf([firstMs, cutMs, endMs])).toEqual([
    { tier: 'quarterHour', startMs: cutMs, endMs: 3 * dayMs, addTo: 1, takeFrom: 0 },
    { tier: 'day', startMs: 0, endMs: 3 * dayMs, addTo: 0, takeFrom: null },
    { tier: 'day', startMs: 3 * dayMs, endMs, addTo: 1, takeFrom: null },
  ]);
});

test('local weeks and months are read as weeks, and what lies between them and their cuts once for both sides', () => {
  const weekly = partsOf(cutsOf('2026-05-04', '2026-07-26', 'Europe/Berlin', 'weekly'));
  expect(lengthMs(weekly, 'quarterHour')).toBe(13 * 2 * hourMs);
  expect(lengthMs(weekly, 'day')).toBe(0);
  expect(lengthMs(weekly, 'week')).toBe(12 * 7 * dayMs);
  const monthly = partsOf(cutsOf('2026-01-01', '2026-12-31', 'UTC', 'monthly'));
  // Of thirteen cuts, one is on a Monday; the others are one to three days from the nearest.
  expect(monthly.filter(({ tier }) => tier === 'day')).toHaveLength(12);
  expect(lengthMs(monthly, 'day')).toBe(23 * dayMs);
});

test('ninety local days are read as days plus the hours between the two midnights', () => {
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
  const days = 40;
  const cuts = fc.uniqueArray(fc.nat({ max: days * 96 }), { minLength: 2, maxLength: 12 });
  fc.assert(
    fc.property(cuts, (quarters) => {
      const sorted = quarters.sort((a, b) => a - b);
      const parts = partsOf(sorted.map((quarter) => quarter * quarterMs));
      for (let bucket = 0; bucket < sorted.length - 1; bucket += 1) {
        // A week begins up to three days before the first cut, and ends as long after the last.
        const counts = new Array<number>((days + 14) * 96).fill(0);
        const first = -7 * 96;
        for (const { tier, startMs, endMs, addTo, takeFrom } of parts) {
          if (tier !== 'quarterHour') expect([startMs, endMs].map((ms) => Math.abs(ms % dayMs))).toEqual([0, 0]);
          if (tier === 'week') expect([startMs, endMs].map((ms) => new Date(ms).getUTCDay())).toEqual([1, 1]);
          const sign = Number(addTo === bucket) - Number(takeFrom === bucket);
          for (let ms = startMs; ms < endMs; ms += quarterMs) counts[ms / quarterMs - first]! += sign;
        }
        const wrong = counts.findIndex((count, index) => {
          const quarter = first + index;
          return count !== Number(quarter >= sorted[bucket]! && quarter < sorted[bucket + 1]!);
        });
        expect(wrong).toBe(-1);
      }
    }),
  );
});
