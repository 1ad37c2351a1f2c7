import { formatUtc } from '../../../format/time.ts';
import type { Bar } from '../../../ui/chart.tsx';

/** How days and months are written in a time zone; the browser's, unless another is given. */
const formatsIn = (timeZone?: string) => {
  const format = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat('en-US', { ...options, timeZone });
  return {
    dayLabel: format({ month: 'short', day: 'numeric' }),
    dayTitle: format({ weekday: 'short', year: 'numeric', month: 'short', day: 'numeric' }),
    monthLabel: format({ month: 'short', year: '2-digit' }),
    monthTitle: format({ month: 'long', year: 'numeric' }),
  };
};
const local = formatsIn();
const utc = formatsIn('UTC');

/** The bar of a bucket. Hours are labelled in UTC, and days, weeks and months in the zone in which they were cut: UTC or the browser's. */
export function barOf(bucketStart: string, value: number, granularity: string, timeZone?: string): Bar {
  const date = new Date(bucketStart);
  const { dayLabel, dayTitle, monthLabel, monthTitle } = timeZone === 'UTC' ? utc : local;
  switch (granularity) {
    case 'hourly': {
      const hour = date.getUTCHours();
      const label = hour === 0 ? utc.dayLabel.format(date) : `${String(hour).padStart(2, '0')}:00`;
      return { label, title: formatUtc(bucketStart).replace(':00 UTC', ' UTC'), value };
    }
    case 'monthly':
      return { label: monthLabel.format(date), title: monthTitle.format(date), value };
    case 'weekly':
      return { label: dayLabel.format(date), title: `Week of ${dayTitle.format(date)}`, value };
    default:
      return { label: dayLabel.format(date), title: dayTitle.format(date), value };
  }
}
