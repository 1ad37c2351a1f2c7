import { addDays, daysBetween, earlierDay, isDay, localDay, utcDay } from '../../../format/time.ts';

export type Granularity = 'hourly' | 'daily' | 'weekly' | 'monthly';
export type Range = { granularity: Granularity; start: string; end: string };

/** The widest range of each granularity in days (service.md, Limits). Months are the portal's own regrouping of days. */
export const rangeDaysMax: Readonly<Record<Granularity, number>> = { hourly: 7, daily: 90, weekly: 365, monthly: 365 };

/** The API reports days in chunks of at most this many. */
const dailyDaysMax = rangeDaysMax.daily;

export const granularityNames: Readonly<Record<Granularity, string>> = {
  hourly: 'Hourly',
  daily: 'Daily',
  weekly: 'Weekly',
  monthly: 'Monthly',
};

/** Today as the granularity counts days: hours are UTC, everything else is local. */
export const today = (granularity: Granularity, now = new Date()): string =>
  granularity === 'hourly' ? utcDay(now) : localDay(now);

function lastDays(granularity: Granularity, days: number): Range {
  const end = today(granularity);
  return { granularity, start: addDays(end, 1 - days), end };
}

/** Brings a range under the cap of its granularity: the end stays, the start moves. */
export function clampRange(range: Range): Range {
  const { granularity, end } = range;
  const start = earlierDay(range.start, end);
  const days = Math.min(daysBetween(start, end), rangeDaysMax[granularity]);
  return { granularity, start: addDays(end, 1 - days), end };
}

/** Reads a range from the address; anything odd becomes the last 7 days. */
export function rangeFromSearch(search: string): Range {
  const parameters = new URLSearchParams(search);
  const wanted = parameters.get('granularity') ?? '';
  const granularity = wanted in rangeDaysMax ? (wanted as Granularity) : 'daily';
  const start = parameters.get('start') ?? '';
  const end = parameters.get('end') ?? '';
  if (!isDay(start) || !isDay(end)) {
    return lastDays(
      granularity,
      granularity === 'monthly' ? 365 : granularity === 'weekly' ? 90 : granularity === 'hourly' ? 2 : 7,
    );
  }
  return clampRange({ granularity, start, end });
}

/** Cuts a range into pieces of at most 90 days, oldest first. */
export function dailyChunks({ start, end }: Range): { start: string; end: string }[] {
  const chunks: { start: string; end: string }[] = [];
  for (let from = start; from <= end; from = addDays(from, dailyDaysMax)) {
    const to = addDays(from, dailyDaysMax - 1);
    chunks.push({ start: from, end: to < end ? to : end });
  }
  return chunks;
}
