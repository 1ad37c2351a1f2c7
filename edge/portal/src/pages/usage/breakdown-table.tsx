import type { ReactNode } from 'react';
import type { Measures } from '../../api/types.ts';
import { formatCount } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { classNames } from '../../ui/class-names.ts';
import { EmptyState } from '../../ui/empty-state.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import type { RequestFilterValues } from './request-filters.tsx';
import { RequestsLink } from './requests-link.tsx';

type Row = Pick<Measures, 'requests' | 'input_tokens' | 'output_tokens' | 'cost_usd'> & { id: string; name: string };

/**
 * Totals by model, endpoint or key. A name leads to its `href`, if there is one; `detail` is shown below it. A number of requests leads to
 * these, if there is a `filter` that they alone meet.
 */
export function BreakdownTable<Shown extends Row>({
  what,
  rows,
  mono = false,
  href,
  detail,
  filter,
}: {
  what: string;
  rows: readonly Shown[];
  mono?: boolean;
  href?: (row: Shown) => string | null;
  detail?: (row: Shown) => ReactNode;
  filter: (row: Shown) => RequestFilterValues | null;
}) {
  const columns: readonly Column<Shown>[] = [
    {
      name: what,
      sortBy: (row) => row.name,
      cell: (row) => {
        const to = href?.(row) ?? null;
        return (
          <>
            {to === null ? (
              <span className={classNames('wrap-anywhere', mono && 'font-mono text-xs')}>{row.name}</span>
            ) : (
              <Link href={to} className="font-medium wrap-anywhere hover:underline">
                {row.name}
              </Link>
            )}
            {detail?.(row)}
          </>
        );
      },
    },
    {
      name: 'Requests',
      end: true,
      sortBy: (row) => row.requests,
      cell: (row) => {
        const wanted = filter(row);
        return wanted === null ? formatCount(row.requests) : <RequestsLink count={row.requests} filter={wanted} />;
      },
    },
    {
      name: 'Input tokens',
      end: true,
      sortBy: (row) => row.input_tokens,
      cell: (row) => formatCount(row.input_tokens),
    },
    {
      name: 'Output tokens',
      end: true,
      sortBy: (row) => row.output_tokens,
      cell: (row) => formatCount(row.output_tokens),
    },
    { name: 'Cost', usd: (row) => row.cost_usd },
  ];
  return (
    <Table
      label={`Usage by ${what.toLowerCase()}`}
      rows={rows}
      columns={columns}
      rowKey={(row) => row.id}
      empty={<EmptyState icon="chart" title="No usage in this range" />}
    />
  );
}
