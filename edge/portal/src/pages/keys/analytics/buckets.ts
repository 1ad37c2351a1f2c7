import { formatUtc } from '../../../format/time.ts';
import type { Bar } from '../../../ui/chart.tsx';

const dayLabel = new Intl.DateTimeFormat('en-US', { month: 'short', day: 'numeric' });
const dayTitle = new Intl.DateTimeFormat('en-US', {
  weekday: 'short',
  year: 'numeric',
  month: 'short',
  day: 'numeric',
});
const monthLabel = new Intl.DateTimeFormat('en-US', { month: 'short', year: '2-digit' });
const monthTitle = new Intl.DateTimeFormat('en-US', { month: 'long', year: 'numeric' });
const hourDay = new Intl.DateTimeFormat('en-US', { month: 'short', day: 'numeric', timeZone: 'UTC' });

/** The bar of a bucket. Hours are labelled in UTC, and days, weeks and months in the browser's zone, as they were cut. */
export function barOf(bucketStart: string, value: number, granularity: string): Bar {
  const date = new Date(bucketStart);
  switch (granularity) {
    case 'hourly': {
      const hour = date.getUTCHours();
      const label = hour === 0 ? hourDay.format(date) : `${String(hour).padStart(2, '0')}:00`;
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
