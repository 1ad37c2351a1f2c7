import type { ComponentProps } from 'react';
import type { List } from '../api/types.ts';
import { Pager } from './pagination.tsx';
import { Table } from './table.tsx';

type PagedTableProps<Row> = Omit<ComponentProps<typeof Table<Row>>, 'rows' | 'pagination'> & {
  list: List<Row>;
  onPage: (page: number) => void;
};

/** One page of a list as a table, and the way to the others. Place it inside a flush Card. */
export function PagedTable<Row>({ list, onPage, ...table }: PagedTableProps<Row>) {
  return (
    <>
      <Table {...table} rows={list.data} pagination={list.pagination} />
      <Pager pagination={list.pagination} onPage={onPage} />
    </>
  );
}
