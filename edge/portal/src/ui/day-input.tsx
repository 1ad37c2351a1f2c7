import { useEffect, useRef } from 'react';

type DayInputProps = {
  label: string;
  value: string;
  min?: string;
  max: string;
  disabled?: boolean;
  onChange: (value: string) => void;
};

/** Nothing happened before this day. */
const earliest = '2000-01-01';

/**
 * A calendar day, YYYY-MM-DD. While a year is typed digit by digit, it passes through the years 2, 20 and 202; so only days within the
 * limits are reported, and any other is reset when the field loses the focus.
 */
export function DayInput({ label, value, min = earliest, max, disabled, onChange }: DayInputProps) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (input.current !== null) input.current.value = value;
  }, [value]);
  return (
    <input
      ref={input}
      type="date"
      aria-label={label}
      className="h-9 rounded-md border border-edge bg-surface px-2.5 text-sm max-sm:px-1.5 tabular text-ink disabled:opacity-60"
      defaultValue={value}
      min={min}
      max={max}
      disabled={disabled}
      onChange={({ target }) => {
        if (target.validity.valid && target.value !== value) onChange(target.value);
      }}
      onBlur={({ target }) => {
        target.value = value;
      }}
    />
  );
}
