import type { List } from '../../api/types.ts';
import { formatCount } from '../../format/number.ts';
import { SearchInput } from '../../ui/search-box.tsx';

type ModelSearchProps = {
  label: string;
  /** The models without a search; undefined: not known yet. */
  all: List<unknown> | undefined;
  value: string;
  onChange: (value: string) => void;
};

/** Stands beside a select of models, where there are more than the API lists at once. */
export const ModelSearch = ({ label, all, value, onChange }: ModelSearchProps) =>
  all !== undefined &&
  all.pagination.total_pages > 1 && (
    <SearchInput
      label={label}
      placeholder={`Search ${formatCount(all.pagination.total)} models`}
      value={value}
      onChange={onChange}
    />
  );
