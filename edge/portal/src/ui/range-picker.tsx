import { addDays, daysBetween, earlierDay, laterDay } from '../format/time.ts';
import { Segments } from './tabs.tsx';

export type DayRange = { start: string; end: string };

type RangePickerProps = {
  range: DayRange;
  /** The last day that can be chosen: today. */
  today: string;
  /** The widest range in days, both ends included. */
  daysMax: number;
  presets: readonly number[];
  onChange: (range: DayRange) => void;
};

const presetName = (days: number) => (days === 1 ? 'Today' : days === 365 ? '1 year' : `${days} days`);

/** A range of days: presets, or both ends by hand. What the cap does not allow cannot be chosen. */
export function RangePicker({ range, today, daysMax, presets, onChange }: RangePickerProps) {
  const days = daysBetween(range.start, range.end);
  const earliest = addDays(range.end, 1 - daysMax);
  const setStart = (start: string) =>
    start !== '' && onChange({ start: earlierDay(laterDay(start, earliest), range.end), end: range.end });
  const setEnd = (end: string) => {
    if (end === '') return;
    const first = addDays(end, 1 - daysMax);
    onChange({ start: earlierDay(laterDay(range.start, first), end), end });
  };
  const input = 'h-9 rounded-md border border-edge bg-surface px-2.5 text-sm tabular text-ink';
  return (
    <div className="flex min-w-0 flex-wrap items-center gap-2">
      <Segments
        label="Range"
        value={range.end === today ? String(days) : ''}
        onChange={(value) => onChange({ start: addDays(today, 1 - Number(value)), end: today })}
        choices={presets.map((preset) => ({
          value: String(preset),
          label: presetName(preset),
          disabled: preset > daysMax,
          ...(preset > daysMax ? { title: `At most ${daysMax} days` } : {}),
        }))}
      />
      <div className="flex items-center gap-1.5 text-sm text-faint">
        <input
          type="date"
          aria-label="From"
          className={input}
          value={range.start}
          min={earliest}
          max={range.end}
          onChange={(event) => setStart(event.target.value)}
        />
        –
        <input
          type="date"
          aria-label="To"
          className={input}
          value={range.end}
          max={today}
          onChange={(event) => setEnd(event.target.value)}
        />
      </div>
    </div>
  );
}
