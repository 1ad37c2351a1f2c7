/*
 * Ranges of days and the buckets into which they are cut. Days, weeks (from Monday) and months begin at the local midnight of an IANA time
 * zone, so a day has 23 or 25 hours when clocks change. Every zone's offset since 2020 is a multiple of a quarter hour, so every boundary
 * is also one of the roll-ups. Pure: the time is passed as an argument.
 */

export type BucketWidth = 'hourly' | 'daily' | 'weekly' | 'monthly';

/** Whole days, both inclusive, in a time zone. */
export type DayRange = { firstDay: Temporal.PlainDate; lastDay: Temporal.PlainDate; timeZone: string };

/** Instants in milliseconds since the Unix epoch; the end is outside. */
export type InstantRange = { startMs: number; endMs: number };

/** Whether a name is an IANA time zone. Offsets such as `+05:30`, and times with a zone, which JavaScript accepts as well, are not. */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    const { timeZoneId } = Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name);
    return timeZoneId.toLowerCase() === name.toLowerCase();
  } catch {
    return false;
  }
}

/** The current day in a time zone. */
export const dayAt = (nowMs: number, timeZone: string): Temporal.PlainDate =>
  Temporal.Instant.fromEpochMilliseconds(nowMs).toZonedDateTimeISO(timeZone).toPlainDate();

/** The first instant of a day: if midnight is skipped, the moment after the gap; if it occurs twice, the first. */
export const dayStartMs = (day: Temporal.PlainDate, timeZone: string): number =>
  day.toZonedDateTime(timeZone).epochMilliseconds;

/** The number of days in a range. */
export const daysIn = ({ firstDay, lastDay }: DayRange): number => firstDay.until(lastDay).days + 1;

export const instantsOf = ({ firstDay, lastDay, timeZone }: DayRange): InstantRange => ({
  startMs: dayStartMs(firstDay, timeZone),
  endMs: dayStartMs(lastDay.add({ days: 1 }), timeZone),
});

/** The range of the same length immediately before. */
export function rangeBefore(range: DayRange): DayRange {
  const { firstDay, timeZone } = range;
  return { firstDay: firstDay.subtract({ days: daysIn(range) }), lastDay: firstDay.subtract({ days: 1 }), timeZone };
}

/** The UTC calendar month around a moment. */
export function utcMonthAt(nowMs: number): InstantRange {
  const now = new Date(nowMs);
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  return { startMs: Date.UTC(year, month, 1), endMs: Date.UTC(year, month + 1, 1) };
}

/**
 * The start of each of a range's buckets, oldest first and without gaps; each ends where the next begins, the last with the range. The
 * first and last are cut to the range. Hours are UTC, so an hourly range must consist of UTC days.
 */
export function bucketStartsMs(range: DayRange, width: BucketWidth): number[] {
  const { startMs, endMs } = instantsOf(range);
  const starts: number[] = [];
  if (width === 'hourly') {
    for (let ms = startMs; ms < endMs; ms += 3_600_000) starts.push(ms);
    return starts;
  }
  for (let day = range.firstDay; Temporal.PlainDate.compare(day, range.lastDay) <= 0; day = nextStart(day, width)) {
    const ms = dayStartMs(day, range.timeZone);
    // A zone that crosses the date line skips a whole day, which then has no instant (Pacific/Apia, 30 December 2011).
    if (ms < endMs && ms !== starts.at(-1)) starts.push(ms);
  }
  return starts;
}

function nextStart(day: Temporal.PlainDate, width: Exclude<BucketWidth, 'hourly'>): Temporal.PlainDate {
  switch (width) {
    case 'daily':
      return day.add({ days: 1 });
    case 'weekly':
      return day.add({ days: 8 - day.dayOfWeek });
    case 'monthly':
      return day.with({ day: 1 }).add({ months: 1 });
    default:
      return width satisfies never;
  }
}
