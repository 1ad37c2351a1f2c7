import { useEffect, useRef } from 'react';
import { addDays, isDay, utcDay } from '../format/time.ts';
import { navigate, searchWith, usePlace } from '../router/router.ts';

/** UTC days as YYYY-MM-DD, both included; empty: open. */
type Days = { start: string; end: string };

/** The days that the address narrows a list to, and how a filter changes them: then the list begins at its first page. */
export function useDays(): [Days, (days: Days) => void] {
  const { path, search } = usePlace();
  const parameters = new URLSearchParams(search);
  const day = (name: string): string => {
    const text = parameters.get(name) ?? '';
    return isDay(text) ? text : '';
  };
  const days = { start: day('start'), end: day('end') };
  const set = ({ start, end }: Days) =>
    navigate(path + searchWith({ start: start || null, end: end || null, page: null }), { replace: true });
  return [days.end !== '' && days.end < days.start ? { start: '', end: '' } : days, set];
}

/** The first and the last day of a list, each of which may stay open. In UTC, as the API cuts days. */
export function DayFilter({ days, onChange }: { days: Days; onChange: (days: Days) => void }) {
  const today = utcDay(new Date());
  return (
    <div className="flex flex-wrap items-center gap-1.5 text-sm text-faint">
      <Day
        label="From (UTC)"
        value={days.start}
        min={earliest}
        max={days.end || today}
        onChange={(start) => onChange({ ...days, start })}
      />
      –
      <Day
        label="To (UTC)"
        value={days.end}
        min={days.start || earliest}
        max={addDays(today, 1)}
        onChange={(end) => onChange({ ...days, end })}
      />
      UTC
    </div>
  );
}

/** Nothing happened before. */
const earliest = '2000-01-01';

type DayProps = { label: string; value: string; min: string; max: string; onChange: (value: string) => void };

/** A year arrives digit by digit, as the years 2, 20 and 202: only days within the limits are taken, and others do not outlive the focus. */
function Day({ label, value, min, max, onChange }: DayProps) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (input.current !== null) input.current.value = value;
  }, [value]);
  return (
    <input
      ref={input}
      type="date"
      aria-label={label}
      className="h-9 rounded-md border border-edge bg-surface px-2.5 text-sm tabular text-ink"
      defaultValue={value}
      min={min}
      max={max}
      onChange={({ target }) => {
        if (target.validity.valid && target.value !== value) onChange(target.value);
      }}
      onBlur={({ target }) => {
        target.value = value;
      }}
    />
  );
}
