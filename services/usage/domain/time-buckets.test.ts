import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { parseDay } from '#shared/iso-time.ts';
import {
  type BucketWidth,
  bucketStartsMs,
  type DayRange,
  dayAt,
  daysIn,
  instantsOf,
  isTimeZone,
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

  test('weeks begin on Monday, months on the first, and both are limited to the range', () => {
    const weeks = iso(bucketStartsMs(days('2026-07-01', '2026-07-14'), 'weekly'));
    expect(weeks).toEqual(['2026-07-01T00:00', '2026-07-06T00:00', '2026-07-13T00:00']);
    const months = iso(bucketStartsMs(days('2026-01-31', '2026-03-01'), 'monthly'));
    expect(months).toEqual(['2026-01-31T00:00', '2026-02-01T00:00', '2026-03-01T00:00']);
  });

  test('hours are in UTC', () => {
    const hours = bucketStartsMs(days('2026-03-29', '2026-03-29'), 'hourly');
    expect(hours).toHaveLength(24);
    expect(iso(hours).at(-1)).toBe('2026-03-29T23:00');
  });

  test('a day that a zone skipped has no bucket', () => {
    expect(bucketStartsMs(days('2011-12-29', '2011-12-31', 'Pacific/Apia'), 'daily')).toHaveLength(2);
  });
});

describe('ranges', () => {
  test('the previous range has as many days and ends where the range begins', () => {
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

  test.each(['Mars/Base', '+05:30', 'T12+05:31', 'T12[Europe/Berlin]', '', 'Europe/Berlin; drop', '../UTC'])(
    '%j is not a time zone',
    (name) => {
      expect(isTimeZone(name)).toBe(false);
    },
  );
});

/** Around clock changes in the short run; with LONG=1 everywhere, and more often. */
const runsPerZone = process.env.LONG === '1' ? 20 : 1;

describe("against Postgres's own time zones", () => {
  let client: pg.Client;
  let zones: string[];

  beforeAll(async () => {
    client = new pg.Client({ connectionString: inject('postgresUrl') });
    await client.connect();
    await client.query(`set timezone = 'UTC'`);
    const { rows } = await client.query<{ name: string }>('select name from pg_timezone_names');
    const known = new Set(rows.map(({ name }) => name));
    zones = Intl.supportedValuesOf('timeZone').filter((name) => known.has(name));
  });
  afterAll(() => client.end());

  /** Which of our buckets, counted from 1, and which of Postgres's share at least one quarter hour. */
  async function meetings(range: DayRange, width: Exclude<BucketWidth, 'hourly'>, startsMs: readonly number[]) {
    const unit = { daily: 'day', weekly: 'week', monthly: 'month' }[width];
    const { startMs, endMs } = instantsOf(range);
    const { rows } = await client.query<{ bucket: number; label: string }>({
      name: 'meetings',
      text: `select distinct width_bucket(t, $5::timestamptz[]) as bucket, date_trunc($1, t at time zone $2) as label
        from generate_series($3::timestamptz, $4::timestamptz - interval '15 minutes', interval '15 minutes') as t`,
      values: [
        unit,
        range.timeZone,
        new Date(startMs).toISOString(),
        new Date(endMs).toISOString(),
        startsMs.map((ms) => new Date(ms).toISOString()),
      ],
    });
    return rows;
  }

  /** A day in the years that have events, within a week before one of the zone's clock changes if it has any then. */
  function dayNearChange(timeZone: string, dayNumber: number): Temporal.PlainDate {
    const day = parseDay('2021-01-01')!.add({ days: dayNumber });
    const change = day.toZonedDateTime(timeZone).getTimeZoneTransition('next');
    return change !== null && change.year < 2027 ? change.toPlainDate().subtract({ days: dayNumber % 7 }) : day;
  }

  test('in every zone each quarter hour falls into the bucket that date_trunc at time zone names', async () => {
    expect(zones.length).toBeGreaterThan(400);
    for (const timeZone of zones) {
      await fc.assert(
        fc.asyncProperty(
          fc.nat({ max: 5 * 365 }),
          fc.integer({ min: 1, max: process.env.LONG === '1' ? 60 : 12 }),
          fc.constantFrom('daily', 'weekly', 'monthly'),
          async (dayNumber, length, width) => {
            const firstDay = dayNearChange(timeZone, dayNumber);
            const range = { firstDay, lastDay: firstDay.add({ days: length - 1 }), timeZone };
            const startsMs = bucketStartsMs(range, width);
            expect(startsMs[0]).toBe(instantsOf(range).startMs);
            expect(startsMs.every((ms) => ms % 900_000 === 0)).toBe(true);
            const met = await meetings(range, width, startsMs);
            // One of Postgres's per bucket of ours, and one of ours per bucket of Postgres's.
            expect(met).toHaveLength(startsMs.length);
            expect(new Set(met.map(({ bucket }) => bucket)).size).toBe(startsMs.length);
            expect(new Set(met.map(({ label }) => String(label))).size).toBe(startsMs.length);
          },
        ),
        { numRuns: runsPerZone },
      );
    }
  }, 600_000);
});
