import { utcToday } from '../../api/server-clock.ts';
import { earlierDay } from '../../format/time.ts';

/** The address of the usage page for some UTC days, the last one included. A month yet to end is shown as far as it has come. */
export const usageOfDays = (
  { start, end }: { start: string; end: string },
  more: Readonly<Record<string, string>> = {},
): string => `/usage?${new URLSearchParams({ zone: 'UTC', start, end: earlierDay(end, utcToday()), ...more })}`;
