import type { ReactNode } from 'react';
import type { Query } from '../api/client.ts';
import { type GetOptions, useGet } from '../api/hooks.ts';
import type { List } from '../api/types.ts';
import { usePageParameter } from '../router/router.ts';
import { Card } from './card.tsx';
import { Loaded } from './failure.tsx';
import { PagedTable } from './paged-table.tsx';
import type { Column } from './table.tsx';

type PagedCardProps<Row> = {
  label: string;
  /** Shown above the table, on pages with several. */
  title?: string;
  description?: string;
  /** Shown next to the title. */
  action?: ReactNode;
  path: string;
  query?: Query;
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => string;
  empty: ReactNode;
  options?: GetOptions<List<Row>>;
  /** As for Table. */
  wordy?: boolean;
};

/** A list of the API as a table with pages; the current page is kept in the address. */
export function PagedCard<Row>({
  label,
  title,
  description,
  action,
  path,
  query = {},
  columns,
  rowKey,
  empty,
  options,
  wordy = false,
}: PagedCardProps<Row>) {
  const [page, setPage] = usePageParameter();
  const list = useGet<List<Row>>(path, { page, limit: 20, ...query }, options);
  return (
    <Card flush title={title} description={description} action={action}>
      <Loaded of={list}>
        {(loaded) => (
          <PagedTable
            label={label}
            wordy={wordy}
            list={loaded}
            onPage={setPage}
            columns={columns}
            rowKey={rowKey}
            empty={empty}
          />
        )}
      </Loaded>
    </Card>
  );
}
