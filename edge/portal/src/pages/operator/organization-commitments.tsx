import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { currentMs } from '../../api/server-clock.ts';
import type { Commitment } from '../../api/types.ts';
import { formatUsd } from '../../format/number.ts';
import { formatUtcRange } from '../../format/time.ts';
import { Status } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import type { Column } from '../../ui/table.tsx';
import { useToast } from '../../ui/toast.tsx';
import { CommitmentForm } from './money-forms.tsx';

/** An organization's past, current and future spend commitments, and a form for a new one. */
export function OrganizationCommitments({ path }: { path: string }) {
  return (
    <>
      <PagedCard<Commitment>
        label="Commitments"
        path={`${path}/commitments`}
        columns={columnsOf(`${path}/commitments`)}
        rowKey={(commitment) => commitment.id}
        empty={<EmptyState icon="card" title="No commitments yet" />}
      />
      <div className="grid items-start lg:grid-cols-2">
        <CommitmentForm path={`${path}/commitments`} />
      </div>
    </>
  );
}

const columnsOf = (path: string): readonly Column<Commitment>[] => [
  {
    name: 'Period (UTC)',
    sortBy: (commitment) => commitment.period_start,
    cell: ({ period_start, period_end }) => formatUtcRange(period_start, period_end),
  },
  { name: 'Status', cell: (commitment) => <PeriodStatus commitment={commitment} /> },
  { name: 'Amount', usd: (row) => row.amount_usd, exact: true },
  { name: 'Used', usd: (row) => row.consumed_usd },
  { name: 'Left', usd: (row) => row.remaining_usd },
  { name: '', end: true, cell: (commitment) => <End path={path} commitment={commitment} /> },
];

const hasEnded = ({ period_end }: Commitment): boolean => Date.parse(period_end) <= currentMs();

function PeriodStatus({ commitment }: { commitment: Commitment }) {
  if (hasEnded(commitment)) return <Status tone="neutral">Ended</Status>;
  return Date.parse(commitment.period_start) > currentMs() ? (
    <Status tone="accent">Upcoming</Status>
  ) : (
    <Status tone="good">In force</Status>
  );
}

function End({ path, commitment }: { path: string; commitment: Commitment }) {
  const [asking, setAsking] = useState(false);
  if (hasEnded(commitment)) return null;
  const what = `the commitment of ${formatUsd(commitment.amount_usd)}`;
  return (
    <>
      <Button size="small" aria-label={`End ${what}`} onClick={() => setAsking(true)}>
        End
      </Button>
      {asking && <EndDialog what={what} path={`${path}/${commitment.id}/end`} onClose={() => setAsking(false)} />}
    </>
  );
}

function EndDialog({ what, path, onClose }: { what: string; path: string; onClose: () => void }) {
  const toast = useToast();
  const end = useAction({
    stale: ['/admin/organizations', '/billing'],
    onSuccess: () => toast.say('Commitment ended.'),
    onDone: onClose,
  });
  return (
    <ConfirmDialog
      title={`End ${what}?`}
      description="Calls no longer draw on it; what it paid for stays paid. This cannot be undone, but the right one can be recorded for the same time."
      act="End"
      onAct={() => end.run({ method: 'POST', path })}
      onClose={onClose}
      pending={end.pending}
      error={end.error}
    />
  );
}
