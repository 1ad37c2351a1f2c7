import { localDay, utcDay } from '../format/time.ts';

let aheadMs = 0;

/**
 * Learns the gateway's time from an answer's `Date`. It takes a while to come, so less than a minute is nothing. It is in whole seconds,
 * rounded down, which is undone: otherwise a price that has just been set would still be to come.
 */
export function learnTime(date: string | null): void {
  const differenceMs = Date.parse(date ?? '') + 999 - Date.now();
  if (!Number.isNaN(differenceMs)) aheadMs = Math.abs(differenceMs) < 60_000 ? 0 : differenceMs;
}

/**
 * The current time by the gateway's clock, in milliseconds. By that of a computer an hour behind, keys would have been used in an hour from
 * now; by one an hour ahead, models would have retired that still serve.
 */
export const currentMs = (): number => Date.now() + aheadMs;

/** Today, by the gateway's clock, where the user is. */
export const localToday = (): string => localDay(new Date(currentMs()));

/** Today, by the gateway's clock, in UTC. */
export const utcToday = (): string => utcDay(new Date(currentMs()));
