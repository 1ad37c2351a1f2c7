import { useState } from 'react';
import { currentMs, utcToday } from '../../api/server-clock.ts';
import { addDays, dayMs, formatDateTime } from '../../format/time.ts';
import { SelectField, TextField } from '../../ui/field.tsx';

/** The presets of service.md (Expiry options at creation), in days. */
const presetDays: Readonly<Record<string, number>> = { '30': 30, '90': 90, '365': 365 };

type ExpiryFieldProps = {
  /** A moment, or a date for 00:00 UTC on that day; null means never; an empty string is an incomplete date, with which no form is sent. */
  value: string | null;
  onChange: (value: string | null) => void;
  error: string | null;
};

export function ExpiryField({ value, onChange, error }: ExpiryFieldProps) {
  const [kind, setKind] = useState(value === null ? 'never' : 'custom');
  const tomorrow = addDays(utcToday(), 1);
  const choose = (next: string) => {
    setKind(next);
    const days = presetDays[next];
    if (next === 'never') onChange(null);
    else if (days !== undefined) onChange(new Date(currentMs() + days * dayMs).toISOString());
    else onChange(value === null || value < tomorrow ? addDays(tomorrow, 30) : value.slice(0, 10));
  };
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      <SelectField
        label="Expires"
        value={kind}
        onChange={choose}
        choices={[
          { value: '30', label: 'In 30 days' },
          { value: '90', label: 'In 90 days' },
          { value: '365', label: 'In 1 year' },
          { value: 'custom', label: 'On a date…' },
          { value: 'never', label: 'Never' },
        ]}
        error={kind === 'custom' ? null : error}
        hint={presetDays[kind] !== undefined && value !== null ? `Until ${formatDateTime(value)}` : undefined}
      />
      {kind === 'custom' && (
        <TextField
          label="Date"
          type="date"
          min={tomorrow}
          value={value?.slice(0, 10) ?? ''}
          onChange={onChange}
          error={value === '' ? 'Enter a full date, or choose Never.' : error}
          hint={`The key stops working at ${value?.slice(11, 19) || '00:00'} UTC on this day.`}
        />
      )}
    </div>
  );
}
