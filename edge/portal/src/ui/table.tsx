import { createSortedRowModel, rowSortingFeature, sortFn_basic, tableFeatures, useTable } from '@tanstack/react-table';
import { type ReactNode, useMemo, useState } from 'react';
import type { Pagination } from '../api/types.ts';
import { formatCount } from '../format/number.ts';
import { usePlace } from '../router/router.ts';
import { classNames } from './class-names.ts';
import { Icon } from './icons.tsx';
import { decimalsMax, Money } from './money.tsx';
import { Pager } from './pagination.tsx';

type PlainColumn<Row> = {
  /** The header; empty for the actions column. */
  name: string;
  cell: (row: Row) => ReactNode;
  /** The value to sort by, if all rows are loaded; columns without it cannot be sorted. */
  sortBy?: (row: Row) => string | number | null;
  end?: boolean;
};

/** A column of amounts in USD: their decimal points are aligned, and they can be sorted. */
type MoneyColumn<Row> = {
  name: string;
  usd: (row: Row) => number | null;
  /** As for Money. */
  exact?: boolean;
};

export type Column<Row> = PlainColumn<Row> | MoneyColumn<Row>;

const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns: { basic: sortFn_basic },
});

type TableProps<Row> = {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => string;
  empty?: ReactNode;
  /** Whether its cells hold more than names, numbers or times, so that it needs as much room as a table with many columns. */
  wordy?: boolean;
  /** The page that the rows come from. One of several pages cannot be sorted, since only that page would be in order. */
  pagination?: Pagination | undefined;
  /** All rows are shown, however many: for what is printed. */
  whole?: boolean;
};

/** How many of the rows that are all loaded are shown at a time: a browser takes seconds to lay out thousands. */
const rowsMax = 100;

/** A page of rows that are all loaded; the last one if there are no longer as many. */
function pageOfLoaded(total: number, wanted: number): Pagination {
  const total_pages = Math.ceil(total / rowsMax);
  const page = Math.min(wanted, total_pages);
  return { page, limit: rowsMax, total, total_pages, has_next: page < total_pages, has_prev: page > 1 };
}

/** The table width below which each row becomes a card. */
function stacking(columns: number, wordy: boolean): string {
  if (columns > 6 || wordy) return '@max-[58rem]:stacked';
  if (columns > 5) return '@max-[43rem]:stacked';
  return columns > 3 ? '@max-xl:stacked' : '@max-xs:stacked';
}

/** A column of amounts as others are, with the room that its longest amount needs. */
function filled<Row>({ name, usd, exact = false }: MoneyColumn<Row>, rows: readonly Row[]): PlainColumn<Row> {
  const decimals = decimalsMax(rows.map(usd), exact);
  return {
    name,
    end: true,
    sortBy: usd,
    cell: (row) => <Money usd={usd(row)} exact={exact} decimals={decimals} />,
  };
}

/**
 * A table whose columns sort on click. The first column says what each row is about: screen readers say it with the row's other cells. Where
 * the columns do not fit, each row becomes a card. Place it inside a flush Card.
 */
export function Table<Row>({ whole = false, ...props }: TableProps<Row>) {
  const { label, rows, pagination } = props;
  const { search } = usePlace();
  const [turned, setTurned] = useState({ search, page: 1 });
  // Another range or filter begins with its first page.
  const page = turned.search === search ? turned.page : 1;
  const setPage = (next: number) => setTurned({ search, page: next });
  const isLong = pagination === undefined && !whole && rows.length > rowsMax;
  const loaded = isLong ? pageOfLoaded(rows.length, page) : undefined;
  return (
    <>
      <Found
        text={`${label}: ${formatCount(pagination?.total ?? rows.length)}${pageOf(pagination ?? loaded)}`}
        page={page}
      />
      <Shown {...props} loaded={loaded} onSort={() => setPage(1)} />
      {loaded !== undefined && <Pager pagination={loaded} onPage={setPage} />}
    </>
  );
}

/** Which of several pages is shown. */
const pageOf = (pagination: Pagination | undefined): string =>
  pagination === undefined || pagination.total_pages <= 1
    ? ''
    : `, page ${formatCount(pagination.page)} of ${formatCount(pagination.total_pages)}`;

/**
 * Tells screen readers how much a search or filter has found, and which page they have turned to: both are in the address, unless all rows
 * are loaded and only their `page` is another. Changes of a list that is read again are not told.
 */
function Found({ text, page }: { text: string; page: number }) {
  const { search } = usePlace();
  const [told, setTold] = useState({ search, page, text });
  if ((told.search !== search || told.page !== page) && told.text !== text) setTold({ search, page, text });
  return (
    <p role="status" className="sr-only">
      {told.text}
    </p>
  );
}

type ShownProps<Row> = Omit<TableProps<Row>, 'whole'> & {
  /** Which of the sorted rows are shown, if not all. */
  loaded: Pagination | undefined;
  onSort: () => void;
};

function Shown<Row>(props: ShownProps<Row>) {
  const { label, rows, columns: given, rowKey, empty, wordy = false, pagination, loaded, onSort } = props;
  const columns = useMemo(
    () => given.map((column) => ('usd' in column ? filled(column, rows) : column)),
    [given, rows],
  );
  const isPart = pagination !== undefined && pagination.total_pages > 1;
  const data = useMemo(() => [...rows], [rows]);
  const definitions = useMemo(
    () =>
      columns.map(({ name, sortBy }, index) => ({
        id: name === '' ? `column${index}` : name,
        accessorFn: (row: Row) => sortBy?.(row) ?? '',
        enableSorting: sortBy !== undefined && !isPart,
        sortFn: 'basic' as const,
      })),
    [columns, isPart],
  );
  const table = useTable<typeof features, Row & object>({
    features,
    columns: definitions as never,
    data: data as (Row & object)[],
    getRowId: (row: Row) => rowKey(row),
  });
  if (rows.length === 0 && empty !== undefined) return <>{empty}</>;
  const heads = table.getHeaderGroups()[0]?.headers ?? [];
  const sortedRows = table.getRowModel().rows;
  const first = loaded === undefined ? 0 : (loaded.page - 1) * loaded.limit;
  const shownRows = loaded === undefined ? sortedRows : sortedRows.slice(first, first + loaded.limit);
  return (
    // Positioned, so that content hidden for screen readers scrolls along.
    <div className="@container relative overflow-x-auto">
      <table
        aria-label={label}
        className={classNames('w-full border-collapse text-sm', stacking(columns.length, wordy))}
      >
        <thead>
          <tr>
            {heads.map((head, index) => {
              const sorted = head.column.getIsSorted();
              const column = columns[index]!;
              return (
                <th
                  key={head.id}
                  scope="col"
                  {...(sorted === false
                    ? {}
                    : { 'aria-sort': sorted === 'asc' ? ('ascending' as const) : ('descending' as const) })}
                  className={classNames(
                    'border-b border-line px-3 py-2 text-xs font-medium whitespace-nowrap text-faint first:pl-5 last:pr-5',
                    column.end ? 'text-right' : 'text-left',
                  )}
                >
                  {column.sortBy === undefined || isPart ? (
                    column.name === '' ? (
                      <span className="sr-only">Actions</span>
                    ) : (
                      column.name
                    )
                  ) : (
                    <button
                      type="button"
                      onClick={() => {
                        head.column.toggleSorting();
                        onSort();
                      }}
                      className={classNames(
                        'group -my-1 flex items-center gap-1 py-1 hover:text-ink',
                        column.end && 'ml-auto flex-row-reverse',
                      )}
                    >
                      {column.name}
                      <Icon
                        name="down"
                        className={classNames(
                          'size-3',
                          sorted === false && 'opacity-0 group-hover:opacity-60 group-focus-visible:opacity-60',
                          sorted === 'asc' && 'rotate-180',
                        )}
                      />
                    </button>
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody className="divide-y divide-line">
          {shownRows.map((row) => (
            <tr key={row.id} className="hover:bg-sunken/60">
              {columns.map((column, index) => {
                const Cell = index === 0 ? 'th' : 'td';
                return (
                  <Cell
                    key={column.name}
                    scope={index === 0 ? 'row' : undefined}
                    data-label={column.name}
                    className={classNames(
                      'px-3 py-2.5 align-middle font-normal first:min-w-36 first:pl-5 last:pr-5',
                      column.end ? 'text-right whitespace-nowrap tabular' : 'text-left',
                    )}
                  >
                    <div className="min-w-0">{column.cell(row.original)}</div>
                  </Cell>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
