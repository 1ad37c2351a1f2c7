import { useState } from 'react';
import { useGet } from '../../api/hooks.ts';
import type { List } from '../../api/types.ts';
import { SelectField } from '../../ui/field.tsx';
import { ModelSearch } from '../models/model-search.tsx';
import type { AdminModel } from './types.ts';

type ModelFieldProps = {
  label: string;
  value: string;
  onChange: (name: string) => void;
  /** Is not offered. */
  except?: string;
  error: string | null;
};

/** Chooses a model that is not retiring: from the list, or where there are more than the API lists at once, from what a search finds. */
export function ModelField({ label, value, onChange, except, error }: ModelFieldProps) {
  const [search, setSearch] = useState('');
  const all = useGet<List<AdminModel>>('/admin/models', { search: '', limit: 100 }).data;
  const found = useGet<List<AdminModel>>('/admin/models', { search: search.trim(), limit: 100 }).data;
  const names = (found?.data ?? [])
    .filter((one) => one.deprecated_at === null && one.id !== except)
    .map(({ id }) => id);
  const offered = value === '' || names.includes(value) ? names : [value, ...names];
  return (
    <div className="grid min-w-0 content-start gap-2">
      <SelectField
        label={label}
        value={value}
        onChange={onChange}
        choices={[{ value: '', label: 'Choose a model' }, ...offered.map((id) => ({ value: id, label: id }))]}
        error={error}
      />
      <ModelSearch label={`${label}: search`} all={all} value={search} onChange={setSearch} />
    </div>
  );
}
