import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Static } from 'typebox';
import { NIL } from 'uuid';
import type { verificationSchema } from '../../../../routes/api/admin/audit-events.ts';
import type { ApiError } from '../../api/error.ts';
import { useApi } from '../../api/hooks.ts';
import { formatCount } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { Button, ButtonLink } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { FormError } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Time } from '../../ui/time.tsx';

/** The API's id for the chain of events that belong to no organization. */
export const platformChain = NIL;

type Verification = Static<typeof verificationSchema>;

/** Has a chain verified from its first event on, in as many parts as the gateway splits it into, and counts the events read so far. */
function useVerification(tenantId: string | undefined) {
  const api = useApi();
  const [read, setRead] = useState(0);
  const check = useQuery<Verification, ApiError>({
    queryKey: ['/admin/audit-events/verification', tenantId],
    enabled: false,
    queryFn: async ({ signal }) => {
      let events_checked = 0;
      for (let after = 0; ; ) {
        setRead(events_checked);
        const query = { tenant_id: tenantId, after_sequence: after };
        const part = await api.request<Verification>('/api/v1/admin/audit-events/verification', { query, signal });
        events_checked += part.events_checked;
        if (part.next_after_sequence === null) return { ...part, events_checked };
        after = part.next_after_sequence;
      }
    },
  });
  return { check, read };
}

/** Has the gateway recompute the chain of an organization's audit events, or the platform's own chain, and shows the result. */
export function ChainCheck({ tenantId }: { tenantId?: string }) {
  const { check, read } = useVerification(tenantId);
  return (
    <Card
      title={tenantId === undefined ? "The platform's own chain" : 'Audit chain'}
      description={
        tenantId === undefined
          ? "Events that belong to no organization; an organization's chain is verified on its page."
          : 'Each event holds the hash of the one before, so any change shows.'
      }
      action={
        <span className="flex flex-wrap gap-2">
          {tenantId !== undefined && (
            <ButtonLink size="small" icon="log" href={`/operator/audit?chain=${tenantId}`}>
              Show events
            </ButtonLink>
          )}
          <Button size="small" icon="shield" pending={check.isFetching} onClick={() => void check.refetch()}>
            Verify
          </Button>
        </span>
      }
    >
      {check.isFetching ? (
        <p className="text-sm text-faint">
          Rehashing every event…{read > 0 && ` ${formatCount(read)} verified so far.`}
        </p>
      ) : check.error !== null ? (
        <FormError error={check.error} />
      ) : check.data === undefined ? (
        <p className="text-sm text-faint">Not verified since you opened this page.</p>
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
  if (is_whole) return `The chain is intact: ${count}.`;
  return `The chain is broken at event ${formatCount(first_broken_sequence ?? 0)}: it was changed, moved or removed. ${count} checked.`;
}
