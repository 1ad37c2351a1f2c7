import { useState } from 'react';
import { useGet } from '../../api/hooks.ts';
import type { List } from '../../api/types.ts';
import { ModelSearch } from '../models/model-search.tsx';
import { Narrowing } from '../usage/narrowing.tsx';
import type { AdminModel } from './types.ts';

type ModelFilterProps = { value: string; onChange: (name: string) => void; off?: boolean };

/** Narrows a list to a model: from the catalog, or where that has more than the API lists at once, from what a search finds. */
export function ModelFilter({ value, onChange, off = false }: ModelFilterProps) {
  const [search, setSearch] = useState('');
  const all = useGet<List<AdminModel>>('/admin/models', { search: '', limit: 100 }).data;
  const found = useGet<List<AdminModel>>('/admin/models', { search: search.trim(), limit: 100 }).data;
  return (
    <>
      <Narrowing
        label="Model"
        all="All models"
        value={value}
        onChange={onChange}
        values={(found?.data ?? []).map(({ id }) => id)}
        off={off}
      />
      <ModelSearch label="Model: search" all={all} value={search} onChange={setSearch} />
    </>
  );
}
