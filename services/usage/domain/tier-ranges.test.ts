import fc from 'fast-check';
import { expect, test } from 'vitest';
import { tierRanges } from './tier-ranges.ts';
import { bucketStartsMs, instantsOf, parseDay } from './time-buckets.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

test('whole UTC days need no quarter hours', () => {
  expect(tierRanges([0, dayMs, 365 * dayMs])).toEqual({ days: [{ startMs: 0, endMs: 365 * dayMs }], quarterHours: [] });
});

test('a local year is whole days but for its first and last', () => {
  const range = { firstDay: parseDay('2026-01-01')!, lastDay: parseDay('2026-12-31')!, timeZone: 'Asia/Kathmandu' };
  const { startMs, endMs } = instantsOf(range);
  const firstMs = Date.UTC(2026, 0, 1);
  const lastMs = Date.UTC(2026, 11, 31);
  expect(tierRanges([startMs, endMs])).toEqual({
    days: [{ startMs: firstMs, endMs: lastMs }],
    quarterHours: [
      { startMs, endMs: firstMs },
      { startMs: lastMs, endMs },
    ],
  });
});

test('local days are one stretch of quarter hours', () => {
  const range = { firstDay: parseDay('2026-03-01')!, lastDay: parseDay('2026-05-29')!, timeZone: 'Europe/Berlin' };
  const { startMs, endMs } = instantsOf(range);
  expect(tierRanges([...bucketStartsMs(range, 'daily'), endMs])).toEqual({
    days: [],
    quarterHours: [{ startMs, endMs }],
  });
});

test('every quarter hour is in exactly one range, and no cut is inside a day that is read whole', () => {
  const quarterMs = hourMs / 4;
  const cuts = fc.uniqueArray(fc.nat({ max: 40 * 96 }), { minLength: 2, maxLength: 12 });
  fc.assert(
    fc.property(cuts, (quarters) => {
      const cutsMs = quarters.map((quarter) => quarter * quarterMs).sort((a, b) => a - b);
      const { days, quarterHours } = tierRanges(cutsMs);
      const all = [...days, ...quarterHours].sort((a, b) => a.startMs - b.startMs);
      expect(all[0]!.startMs).toBe(cutsMs[0]);
      expect(all.at(-1)!.endMs).toBe(cutsMs.at(-1));
      for (const [index, range] of all.entries()) {
        expect(range.endMs).toBeGreaterThan(range.startMs);
        if (index > 0) expect(range.startMs).toBe(all[index - 1]!.endMs);
      }
      for (const { startMs, endMs } of days) {
        expect([startMs % dayMs, endMs % dayMs]).toEqual([0, 0]);
        expect(cutsMs.filter((ms) => ms > startMs && ms < endMs && ms % dayMs !== 0)).toEqual([]);
      }
    }),
  );
});
