import { useGet } from '../../api/hooks.ts';
import { formatCount } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { FormError } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Time } from '../../ui/time.tsx';

/** Names the chain of what belongs to no organization, in the API. */
export const platformChain = '00000000-0000-0000-0000-000000000000';

type Verification = { is_whole: boolean; events_checked: number; first_broken_sequence: number | null };

/** Has the gateway recompute an organization's chain of audit events, or without one the platform's own, and shows what it found. */
export function ChainCheck({ tenantId }: { tenantId?: string }) {
  const check = useGet<Verification>(
    '/admin/audit-events/verification',
    { tenant_id: tenantId },
    { enabled: false, keepPrevious: false },
  );
  return (
    <Card
      title={tenantId === undefined ? "The platform's own chain" : 'Audit chain'}
      description={
        tenantId === undefined
          ? "Events that belong to no organization; an organization's chain is verified on its page."
          : 'Each event holds the hash of the one before, so that a change shows.'
      }
      action={
        <Button size="small" icon="shield" pending={check.isFetching} onClick={() => void check.refetch()}>
          Verify
        </Button>
      }
    >
      {check.isFetching ? (
        <p className="text-sm text-faint">Every event is hashed anew…</p>
      ) : check.error !== null ? (
        <FormError error={check.error} />
      ) : check.data === undefined ? (
        <p className="text-sm text-faint">Not verified since this page was opened.</p>
      ) : (
        <Notice
          tone={check.data.is_whole ? 'good' : 'danger'}
          role="status"
          action={
            check.data.first_broken_sequence !== null && (
              <Link
                href={`/operator/audit?chain=${tenantId ?? platformChain}&sequence=${check.data.first_broken_sequence}`}
                className="font-medium underline"
              >
                Show event {formatCount(check.data.first_broken_sequence)}
              </Link>
            )
          }
        >
          <Answer {...check.data} /> Checked <Time value={new Date(check.dataUpdatedAt).toISOString()} />.
        </Notice>
      )}
    </Card>
  );
}

function Answer({ is_whole, events_checked, first_broken_sequence }: Verification) {
  const count = `${formatCount(events_checked)} ${events_checked === 1 ? 'event' : 'events'}`;
  if (is_whole) return `The chain is whole: ${count}.`;
  return `The chain is broken at event ${formatCount(first_broken_sequence ?? 0)}: it was changed, moved or removed. ${count} were read.`;
}
