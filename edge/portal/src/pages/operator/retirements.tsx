import { useState } from 'react';
import { useGet } from '../../api/hooks.ts';
import { currentMs } from '../../api/server-clock.ts';
import type { List } from '../../api/types.ts';
import { formatCount } from '../../format/number.ts';
import { usePageParameter, useSearchParameter } from '../../router/router.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card, Facts } from '../../ui/card.tsx';
import { CodeBlock } from '../../ui/code-block.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Narrowed } from '../../ui/narrowed.tsx';
import { Page } from '../../ui/page.tsx';
import { Pager } from '../../ui/pagination.tsx';
import { Time } from '../../ui/time.tsx';
import { RetiringBadge } from '../models/model-badges.tsx';
import { AnnounceDialog } from './announce-dialog.tsx';
import { DateDialog, WithdrawDialog } from './retirement-dialogs.tsx';
import { draftOf, previewHeaders, timelineOf } from './retirement-preview.ts';
import { Timeline } from './timeline.tsx';
import type { AdminRetirement } from './types.ts';

const refreshMs = 5000;

export function Retirements() {
  const [page, setPage] = usePageParameter();
  const [wanted, setWanted] = useSearchParameter('model', '');
  const query = { page, limit: 20, next_first: true, ...(wanted !== '' && { model: wanted }) };
  const retirements = useGet<List<AdminRetirement>>('/admin/retirements', query, { refetchIntervalMs: refreshMs });
  const [announcing, setAnnouncing] = useState(false);
  return (
    <Page
      title="Retirements"
      description="Announced, dated, retired and withdrawn."
      actions={
        <Button look="primary" icon="plus" onClick={() => setAnnouncing(true)}>
          Announce
        </Button>
      }
    >
      {wanted !== '' && <Narrowed onAll={() => setWanted('')}>Only retirements of {wanted}</Narrowed>}
      <Loaded of={retirements}>
        {({ data, pagination }) =>
          pagination.total === 0 ? (
            <Card>
              <EmptyState icon="sunset" title={wanted === '' ? 'No model is retiring' : 'This model is not retiring'}>
                An announcement adds headers to every response of the model; with a date, its users get up to five
                emails.
              </EmptyState>
            </Card>
          ) : (
            <div className="grid gap-4">
              {data.map((retirement) => (
                <RetirementCard key={retirement.id} retirement={retirement} />
              ))}
              <Pager pagination={pagination} onPage={setPage} />
            </div>
          )
        }
      </Loaded>
      {announcing && <AnnounceDialog wanted={wanted} onClose={() => setAnnouncing(false)} />}
    </Page>
  );
}

const isOver = ({ sunset_at }: AdminRetirement): boolean => sunset_at !== null && Date.parse(sunset_at) <= currentMs();

function RetirementCard({ retirement }: { retirement: AdminRetirement }) {
  const [dialog, setDialog] = useState<'date' | 'withdraw' | null>(null);
  const over = isOver(retirement);
  const open = retirement.withdrawn_at === null && !over;
  const draft = draftOf(retirement);
  const dateAct = retirement.sunset_at === null ? 'Set date' : 'Move date';
  return (
    <Card
      title={
        <span className="flex flex-wrap items-center gap-2">
          <span className="font-mono text-sm wrap-anywhere">{retirement.model}</span>
          {retirement.withdrawn_at !== null ? (
            <Badge>Withdrawn</Badge>
          ) : over ? (
            <Badge tone="danger">Retired</Badge>
          ) : (
            <RetiringBadge model={retirement} />
          )}
        </span>
      }
      action={
        open ? (
          <div className="flex flex-wrap gap-2">
            <Button size="small" aria-label={`${dateAct} of ${retirement.model}`} onClick={() => setDialog('date')}>
              {dateAct}
            </Button>
            <Button
              size="small"
              look="quiet"
              aria-label={`Withdraw the retirement of ${retirement.model}`}
              onClick={() => setDialog('withdraw')}
            >
              Withdraw
            </Button>
          </div>
        ) : undefined
      }
    >
      <div className="grid gap-x-10 gap-y-4 lg:grid-cols-2">
        <Timeline points={timelineOf(draft, new Date(currentMs()))} />
        <div className="grid min-w-0 content-start gap-4">
          <Facts
            facts={[
              [
                'Replacement',
                retirement.replacement_model_name === null ? (
                  (retirement.retirement_note ?? '—')
                ) : (
                  <code key="successor" className="font-mono text-xs">
                    {retirement.replacement_model_name}
                  </code>
                ),
              ],
              ['Emails', emailsOf(retirement)],
              ...(retirement.withdrawn_at === null
                ? []
                : [['Withdrawn', <Time key="withdrawn" value={retirement.withdrawn_at} />] as const]),
            ]}
          />
          {open && (
            <CodeBlock label={`Headers of ${retirement.model}`} code={previewHeaders(draft, window.location.origin)} />
          )}
        </div>
      </div>
      {dialog === 'date' && <DateDialog retirement={retirement} onClose={() => setDialog(null)} />}
      {dialog === 'withdraw' && <WithdrawDialog retirement={retirement} onClose={() => setDialog(null)} />}
    </Card>
  );
}

/** What became of those that were due: the recipients of a later one are found when it is due. */
const emailsOf = ({ reminders_sent, reminders_pending }: AdminRetirement): string =>
  [
    reminders_sent === null ? 'Taking back those not yet sent' : `${formatCount(reminders_sent)} sent`,
    ...(reminders_pending === 0 ? [] : [`${formatCount(reminders_pending)} waiting`]),
  ].join(', ');
