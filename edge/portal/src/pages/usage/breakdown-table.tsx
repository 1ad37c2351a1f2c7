import type { ReactNode } from 'react';
import type { Measures } from '../../api/types.ts';
import { formatCount } from '../../format/number.ts';
import { EmptyState } from '../../ui/empty-state.tsx';
import { type Column, Table } from '../../ui/table.tsx';

type Row = Pick<Measures, 'requests' | 'input_tokens' | 'output_tokens' | 'cost_usd'> & { id: string; name: string };

/** Totals by model, endpoint or key. */
export function BreakdownTable({
  what,
  rows,
  show = (name) => name,
}: {
  what: string;
  rows: readonly Row[];
  show?: (name: string) => ReactNode;
}) {
  const columns: readonly Column<Row>[] = [
    { name: what, sortBy: (row) => row.name, cell: (row) => <span className="wrap-anywhere">{show(row.name)}</span> },
    { name: 'Requests', end: true, sortBy: (row) => row.requests, cell: (row) => formatCount(row.requests) },
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
