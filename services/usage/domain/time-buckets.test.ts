import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  type BucketWidth,
  bucketStartsMs,
  type DayRange,
  dayAt,
  daysIn,
  instantsOf,
  isTimeZone,
  parseDay,
  rangeBefore,
  utcMonthAt,
} from './time-buckets.ts';

const days = (first: string, last: string, timeZone = 'UTC'): DayRange => ({
  firstDay: parseDay(first)!,
  lastDay: parseDay(last)!,
  timeZone,
});
const iso = (starts: readonly number[]) => starts.map((ms) => new Date(ms).toISOString().slice(0, 16));

describe('buckets', () => {
  test('days begin at local midnight, in quarter-hour zones too', () => {
    expect(iso(bucketStartsMs(days('2026-07-01', '2026-07-02', 'Asia/Kathmandu'), 'daily'))).toEqual([
      '2026-06-30T18:15',
      '2026-07-01T18:15',
    ]);
  });

  test('a day is 23 hours long when clocks go forward and 25 when they go back', () => {
    const lengths = ([first, last]: [string, string]) => {
      const [a, b] = bucketStartsMs(days(first, last, 'Europe/Berlin'), 'daily');
      return (b! - a!) / 3_600_000;
    };
    expect(lengths(['2026-03-29', '2026-03-30'])).toBe(23);
    expect(lengths(['2026-10-25', '2026-10-26'])).toBe(25);
  });

  test('a day whose midnight is skipped begins after the gap', () => {
    // Clocks in Beirut went from 00:00 to 01:00 on 26 March 2023.
    expect(iso(bucketStartsMs(days('2023-03-26', '2023-03-26', 'Asia/Beirut'), 'daily'))).toEqual(['2023-03-25T22:00']);
  });

  test('weeks begin on Monday, months on the first, and both are cut to the range', () => {
    const weeks = iso(bucketStartsMs(days('2026-07-01', '2026-07-14'), 'weekly'));
    expect(weeks).toEqual(['2026-07-01T00:00', '2026-07-06T00:00', '2026-07-13T00:00']);
    const months = iso(bucketStartsMs(days('2026-01-31', '2026-03-01'), 'monthly'));
    expect(months).toEqual(['2026-01-31T00:00', '2026-02-01T00:00', '2026-03-01T00:00']);
  });

  test('hours are those of UTC', () => {
    const hours = bucketStartsMs(days('2026-03-29', '2026-03-29'), 'hourly');
    expect(hours).toHaveLength(24);
    expect(iso(hours).at(-1)).toBe('2026-03-29T23:00');
  });

  test('a day that a zone skipped has no bucket', () => {
    expect(bucketStartsMs(days('2011-12-29', '2011-12-31', 'Pacific/Apia'), 'daily')).toHaveLength(2);
  });
});

describe('ranges', () => {
  test('the range before has as many days and ends where the range begins', () => {
    const range = days('2026-03-24', '2026-03-30', 'Europe/Berlin');
    const before = rangeBefore(range);
    expect(daysIn(before)).toBe(daysIn(range));
    expect(daysIn(range)).toBe(7);
    expect(instantsOf(before).endMs).toBe(instantsOf(range).startMs);
  });

  test('the current month ends with the year', () => {
    expect(utcMonthAt(Date.UTC(2026, 11, 31, 23, 59))).toEqual({
      startMs: Date.UTC(2026, 11, 1),
      endMs: Date.UTC(2027, 0, 1),
    });
  });

  test('today depends on the zone', () => {
    const nowMs = Date.UTC(2026, 6, 15, 12);
    expect(String(dayAt(nowMs, 'Pacific/Kiritimati'))).toBe('2026-07-16');
    expect(String(dayAt(nowMs, 'UTC'))).toBe('2026-07-15');
  });

  test.each(['2026-02-29', '2026-13-01', '2026-1-1', '20260101', '+002026-01-01', ''])('%j is no day', (text) => {
    expect(parseDay(text)).toBeNull();
  });

  test.each(['Mars/Base', '+05:30', '', 'Europe/Berlin; drop', '../UTC'])('%j is no time zone', (name) => {
    expect(isTimeZone(name)).toBe(false);
  });
});

/** A sample of zones in a short run: the odd offsets, the odd rules, and both hemispheres. LONG=1 takes all there are. */
const sampleZones = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'Asia/Kathmandu',
  'Australia/Lord_Howe',
  'Pacific/Chatham',
  'America/St_Johns',
  'America/Santiago',
  'America/Havana',
  'Africa/Cairo',
  'Atlantic/Azores',
  'Asia/Tehran',
  'Antarctica/Troll',
  'Africa/Casablanca',
];

describe("against Postgres's own time zones", () => {
  let client: pg.Client;
  let zones: string[];

  beforeAll(async () => {
    client = new pg.Client({ connectionString: inject('postgresUrl') });
    await client.connect();
    await client.query(`set timezone = 'UTC'`);
    const { rows } = await client.query<{ name: string }>('select name from pg_timezone_names');
    const known = new Set(rows.map(({ name }) => name));
    const all = Intl.supportedValuesOf('timeZone').filter((name) => known.has(name));
    zones = process.env.LONG === '1' ? all : sampleZones.filter((name) => known.has(name));
  });
  afterAll(() => client.end());

  /** What Postgres calls the bucket of each quarter hour of a range. */
  async function labels(range: DayRange, width: Exclude<BucketWidth, 'hourly'>, endMs: number) {
    const unit = { daily: 'day', weekly: 'week', monthly: 'month' }[width];
    const { rows } = await client.query<{ ms: string; label: string }>(
      `select extract(epoch from t) * 1000 as ms, date_trunc($1, t at time zone $2)::text as label
       from generate_series($3::timestamptz, $4::timestamptz - interval '15 minutes', interval '15 minutes') as t`,
      [unit, range.timeZone, new Date(instantsOf(range).startMs).toISOString(), new Date(endMs).toISOString()],
    );
    return rows.map(({ ms, label }) => ({ ms: Number(ms), label }));
  }

  test('every quarter hour falls into the bucket that date_trunc at time zone names', async () => {
    const epoch = parseDay('2021-01-01')!;
    for (const timeZone of zones) {
      await fc.assert(
        fc.asyncProperty(
          fc.nat({ max: 5 * 365 }),
          fc.integer({ min: 1, max: 45 }),
          fc.constantFrom('daily', 'weekly', 'monthly'),
          async (offset, length, width) => {
            const firstDay = epoch.add({ days: offset });
            const range = { firstDay, lastDay: firstDay.add({ days: length - 1 }), timeZone };
            const { startMs, endMs } = instantsOf(range);
            const starts = bucketStartsMs(range, width);
            expect(starts[0]).toBe(startMs);
            expect(starts.every((ms) => ms % 900_000 === 0)).toBe(true);
            const ours = (ms: number) => starts.findLastIndex((start) => start <= ms);
            const pairs = new Set((await labels(range, width, endMs)).map(({ ms, label }) => `${ours(ms)} ${label}`));
            // One label per bucket and one bucket per label.
            expect(pairs.size).toBe(starts.length);
            expect(new Set([...pairs].map((pair) => pair.split(' ', 1)[0])).size).toBe(starts.length);
          },
        ),
        { numRuns: 10 },
      );
    }
  }, 600_000);
});
