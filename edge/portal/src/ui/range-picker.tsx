import { addDays, daysBetween, earlierDay, laterDay } from '../format/time.ts';
import { DayInput } from './day-input.tsx';
import { Segments } from './tabs.tsx';

export type DayRange = { start: string; end: string };

type RangePickerProps = {
  range: DayRange;
  /** The last day that can be chosen, today. */
  today: string;
  /** The widest range in days, both ends included. */
  daysMax: number;
  presets: readonly number[];
  onChange: (range: DayRange) => void;
};

const presetName = (days: number) => (days === 1 ? 'Today' : days === 365 ? '1 year' : `${days} days`);

/** A range of days, by preset or with both ends picked. Ranges wider than the maximum cannot be chosen. */
export function RangePicker({ range, today, daysMax, presets, onChange }: RangePickerProps) {
  const days = daysBetween(range.start, range.end);
  const earliest = addDays(range.end, 1 - daysMax);
  const setEnd = (end: string) => {
    if (end === '') return;
    const first = addDays(end, 1 - daysMax);
    onChange({ start: earlierDay(laterDay(range.start, first), end), end });
  };
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
      <div className="flex flex-wrap items-center gap-1.5 text-sm text-faint">
        <DayInput
          label="From"
          value={range.start}
          min={earliest}
          max={range.end}
          onChange={(start) => start !== '' && onChange({ start, end: range.end })}
        />
        –
        <DayInput label="To" value={range.end} max={today} onChange={setEnd} />
      </div>
    </div>
  );
}
