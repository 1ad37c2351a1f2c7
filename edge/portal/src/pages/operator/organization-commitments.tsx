import { currentMs } from '../../api/server-clock.ts';
import type { Commitment } from '../../api/types.ts';
import { formatUtcRange } from '../../format/time.ts';
import { Status } from '../../ui/badge.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import type { Column } from '../../ui/table.tsx';
import { CommitmentForm } from './money-forms.tsx';

/** An organization's past, current and future spend commitments, and a form for a new one. */
export function OrganizationCommitments({ path }: { path: string }) {
  return (
    <>
      <PagedCard<Commitment>
        label="Commitments"
        path={`${path}/commitments`}
        columns={columns}
        rowKey={(commitment) => commitment.id}
        empty={<EmptyState icon="card" title="No commitments yet" />}
      />
      <div className="grid items-start lg:grid-cols-2">
        <CommitmentForm path={`${path}/commitments`} />
      </div>
    </>
  );
}

const columns: readonly Column<Commitment>[] = [
  {
    name: 'Period (UTC)',
    sortBy: (commitment) => commitment.period_start,
    cell: ({ period_start, period_end }) => formatUtcRange(period_start, period_end),
  },
  { name: 'Status', cell: (commitment) => <PeriodStatus commitment={commitment} /> },
  { name: 'Amount', usd: (row) => row.amount_usd, exact: true },
  { name: 'Used', usd: (row) => row.consumed_usd },
  { name: 'Left', usd: (row) => row.remaining_usd },
];

function PeriodStatus({ commitment: { period_start, period_end } }: { commitment: Commitment }) {
  if (Date.parse(period_end) <= currentMs()) return <Status tone="neutral">Ended</Status>;
  return Date.parse(period_start) > currentMs() ? (
    <Status tone="accent">Upcoming</Status>
  ) : (
    <Status tone="good">In force</Status>
  );
}
