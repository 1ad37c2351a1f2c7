import { Select } from '../../ui/field.tsx';

type NarrowingProps = {
  label: string;
  all: string;
  value: string;
  onChange: (value: string) => void;
  values: readonly string[];
  nameOf?: (value: string) => string;
  /** Whether all are shown for now, whatever is chosen. */
  off: boolean;
};

/** Filters by one of the values that occur, or by none. The chosen value stays available even if another range does not have it. */
export function Narrowing({ label, all, value, onChange, values, nameOf = String, off }: NarrowingProps) {
  const offered = value === '' || values.includes(value) ? values : [value, ...values];
  return (
    <Select
      aria-label={label}
      className="max-w-44"
      value={off ? '' : value}
      disabled={off}
      onChange={onChange}
      choices={[{ value: '', label: all }, ...offered.map((one) => ({ value: one, label: nameOf(one) }))]}
    />
  );
}
