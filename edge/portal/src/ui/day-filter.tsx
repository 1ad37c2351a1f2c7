import { utcToday } from '../api/server-clock.ts';
import { addDays, isDay } from '../format/time.ts';
import { navigate, searchWith, usePlace } from '../router/router.ts';
import { DayInput } from './day-input.tsx';

/** UTC days as YYYY-MM-DD, both included; an empty one leaves that end open. */
type Days = { start: string; end: string };

/** The days by which the address filters a list, and a function to change them, which returns to the list's first page. */
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

type DayFilterProps = { days: Days; onChange: (days: Days) => void; disabled?: boolean };

/** The first and last day of a list, either of which may stay open. In UTC, as the API cuts days. */
export function DayFilter({ days, onChange, disabled = false }: DayFilterProps) {
  const today = utcToday();
  return (
    <div className="flex flex-wrap items-center gap-1.5 text-sm text-faint">
      <DayInput
        label="From (UTC)"
        value={days.start}
        max={days.end || today}
        disabled={disabled}
        onChange={(start) => onChange({ ...days, start })}
      />
      –
      <span className="flex flex-wrap items-center gap-1.5">
        <DayInput
          label="To (UTC)"
          value={days.end}
          min={days.start || undefined}
          max={addDays(today, 1)}
          disabled={disabled}
          onChange={(end) => onChange({ ...days, end })}
        />
        UTC
      </span>
    </div>
  );
}
