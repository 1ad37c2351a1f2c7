import type { ReactNode } from 'react';
import type { UsageEvent } from '../../api/types.ts';
import { formatDurationMs } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { Status } from '../../ui/badge.tsx';
import { Facts, Figures } from '../../ui/card.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { NameParts } from '../../ui/name-parts.tsx';
import { Time } from '../../ui/time.tsx';
import { figuresOf } from './figures.tsx';

type RequestDialogProps = {
  event: UsageEvent;
  /** Its key, or what else it was made with. */
  by: ReactNode;
  /** What else is known of it. */
  facts?: readonly (readonly [string, ReactNode])[];
  /** Where a job is shown, for those who may see the one of which it was an attempt. */
  jobHref?: ((id: string) => string) | undefined;
  /** Where this leads. */
  action?: ReactNode;
  onClose: () => void;
};

/** Everything that is known of one request: by whom, how it ended, what it used and what that cost. */
export function RequestDialog({ event, by, facts = [], jobHref, action, onClose }: RequestDialogProps) {
  return (
    <Dialog open onClose={onClose} title="Request">
      <div className="grid gap-5">
        <Facts
          facts={[
            [
              'Request id',
              <span key="id" className="flex flex-wrap items-center gap-2">
                <code className="font-mono text-xs select-all wrap-anywhere">{event.request_id}</code>
                <CopyButton text={event.request_id} />
              </span>,
            ],
            ...facts,
            ['Time', <Time key="time" value={event.occurred_at} />],
            ['Model', <Code key="model" text={event.model} />],
            ['Endpoint', <Code key="endpoint" text={event.endpoint} />],
            ['Key', by],
            ...jobFacts(event.job_id, jobHref, onClose),
            ['Status', <RequestStatus key="status" event={event} />],
            ['HTTP status', event.status],
            ['First byte after', event.ttft_ms === null ? '—' : formatDurationMs(event.ttft_ms)],
            ['Latency', formatDurationMs(event.latency_ms)],
          ]}
        />
        <Figures figures={figuresOf(event)} />
        {action !== undefined && <DialogActions>{action}</DialogActions>}
      </div>
    </Dialog>
  );
}

const jobFacts = (
  id: string | null,
  hrefOf: RequestDialogProps['jobHref'],
  onLeave: () => void,
): [string, ReactNode][] =>
  id === null
    ? []
    : [
        [
          'Job',
          hrefOf === undefined ? (
            <Code key="job" text={id} />
          ) : (
            <Link key="job" href={hrefOf(id)} className="hover:underline" onClick={onLeave}>
              <Code text={id} />
            </Link>
          ),
        ],
      ];

/** The time of a request in a list, which opens its dialog. */
export function RequestTime({ event, onOpen }: { event: UsageEvent; onOpen: () => void }) {
  return (
    <button type="button" className="text-left font-medium hover:underline" onClick={onOpen}>
      <span className="sr-only">Request of </span>
      <Time value={event.occurred_at} />
    </button>
  );
}

export const RequestStatus = ({ event }: { event: UsageEvent }) => (
  <Status wraps tone={event.success ? 'good' : 'danger'}>
    <NameParts name={event.success ? 'Success' : (event.error_code ?? 'Failed')} />
  </Status>
);

const Code = ({ text }: { text: string }) => <code className="font-mono text-xs wrap-anywhere">{text}</code>;
