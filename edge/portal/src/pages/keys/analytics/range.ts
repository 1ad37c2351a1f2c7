import { localToday, utcToday } from '../../../api/server-clock.ts';
import { addDays, daysBetween, earlierDay, isDay } from '../../../format/time.ts';

export type Granularity = 'hourly' | 'daily' | 'weekly' | 'monthly';
export type Range = { granularity: Granularity; start: string; end: string };

/** The widest range of each granularity in days (service.md, Limits). Months are daily figures that the portal groups itself. */
export const rangeDaysMax: Readonly<Record<Granularity, number>> = { hourly: 7, daily: 90, weekly: 365, monthly: 365 };

/** The API reports at most this many days at once by day. */
const dailyDaysMax = rangeDaysMax.daily;

export const granularityNames: Readonly<Record<Granularity, string>> = {
  hourly: 'Hourly',
  daily: 'Daily',
  weekly: 'Weekly',
  monthly: 'Monthly',
};

/** Today, as the granularity counts days: UTC for hours, local for everything else. */
export const today = (granularity: Granularity): string => (granularity === 'hourly' ? utcToday() : localToday());

/** How many days are shown where the address names none. */
const lastDays: Readonly<Record<Granularity, number>> = { hourly: 2, daily: 7, weekly: 90, monthly: 365 };

/** Shortens a range to the maximum of its granularity by moving its start. */
export function clampRange(range: Range): Range {
  const { granularity, end } = range;
  const start = earlierDay(range.start, end);
  const days = Math.min(daysBetween(start, end), rangeDaysMax[granularity]);
  return { granularity, start: addDays(end, 1 - days), end };
}

/** Reads a range from the address; days that are none become the last ones. */
export function rangeFromSearch(search: string): Range {
  const parameters = new URLSearchParams(search);
  const wanted = parameters.get('granularity') ?? '';
  const granularity = Object.hasOwn(rangeDaysMax, wanted) ? (wanted as Granularity) : 'daily';
  const start = parameters.get('start') ?? '';
  const end = parameters.get('end') ?? '';
  if (!isDay(start) || !isDay(end)) {
    const last = today(granularity);
    return { granularity, start: addDays(last, 1 - lastDays[granularity]), end: last };
  }
  return clampRange({ granularity, start, end });
}

/** Cuts a range into pieces of at most 90 days, oldest first. */
export function dailyChunks({ start, end }: Range): { start: string; end: string }[] {
  const chunks: { start: string; end: string }[] = [];
  for (let from = start; from <= end; from = addDays(from, dailyDaysMax)) {
    chunks.push({ start: from, end: earlierDay(addDays(from, dailyDaysMax - 1), end) });
  }
  return chunks;
}
