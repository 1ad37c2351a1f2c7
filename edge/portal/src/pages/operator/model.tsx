import { useState } from 'react';
import { useGet } from '../../api/hooks.ts';
import { currentMs } from '../../api/server-clock.ts';
import { formatCount } from '../../format/number.ts';
import { formatUtc } from '../../format/time.ts';
import type { PageParameters } from '../../router/routed-page.tsx';
import { Badge } from '../../ui/badge.tsx';
import { Button, ButtonLink } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Page } from '../../ui/page.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { DeploymentStatus } from '../models/model.tsx';
import { RetiringBadge } from '../models/model-badges.tsx';
import { hasBegun, priceLines } from '../models/prices.ts';
import { callsMeeting, failedCallsOf } from './calls-filtered.ts';
import { DeleteModelDialog } from './delete-model.tsx';
import { DeploymentDialog } from './deployment-dialog.tsx';
import { Grants } from './grants.tsx';
import { ModelDialog } from './model-dialog.tsx';
import { PriceDialog } from './price-dialog.tsx';
import { Reminders } from './reminders.tsx';
import type { AdminDeployment, AdminModel, AdminPrice } from './types.ts';
import { WithdrawPriceDialog } from './withdraw-price.tsx';

const refreshMs = 5000;

export function OperatorModel({ parameters }: PageParameters) {
  const id = parameters.id ?? '';
  const model = useGet<AdminModel>(`/admin/models/${encodeURIComponent(id)}`, undefined, {
    refetchIntervalMs: refreshMs,
    keepPrevious: false,
  });
  const [dialog, setDialog] = useState<'model' | 'deletion' | 'price' | 'deployment' | AdminDeployment | null>(null);
  const [withdrawing, setWithdrawing] = useState<AdminPrice | null>(null);
  return (
    <Page
      title={model.data?.display_name ?? id}
      parent={{ name: 'Model catalog', href: '/operator/models' }}
      badge={model.data === undefined ? undefined : <RetiringBadge model={model.data} />}
      description={<code className="font-mono text-sm wrap-anywhere">{id}</code>}
      actions={
        model.error?.status === 404 ? undefined : (
          <>
            <Button icon="settings" disabled={model.data === undefined} onClick={() => setDialog('model')}>
              Edit
            </Button>
            <ButtonLink icon="pulse" href={callsMeeting({ model: id })}>
              Calls
            </ButtonLink>
            <ButtonLink icon="sunset" href={`/operator/retirements?model=${encodeURIComponent(id)}`}>
              Retirement
            </ButtonLink>
            <Button icon="trash" disabled={model.data === undefined} onClick={() => setDialog('deletion')}>
              Delete
            </Button>
          </>
        )
      }
    >
      <Loaded of={model}>
        {(data) => (
          <>
            <Card
              flush
              title="Deployments"
              description="Statuses follow probes and live traffic."
              action={
                <Button size="small" icon="plus" onClick={() => setDialog('deployment')}>
                  Add deployment
                </Button>
              }
            >
              <Table
                label="Deployments"
                rows={data.deployments}
                columns={deploymentColumns(setDialog)}
                rowKey={(row) => row.id}
                empty={
                  <EmptyState icon="server" title="No deployments yet">
                    Add a deployment: an upstream that serves this model.
                  </EmptyState>
                }
              />
            </Card>
            <Card
              flush
              title="Prices"
              description="A version never changes; a new one replaces it from the time it takes effect."
              action={
                <Button size="small" icon="plus" onClick={() => setDialog('price')}>
                  Set price
                </Button>
              }
            >
              <Table
                label="Prices"
                wordy
                rows={data.prices}
                columns={priceColumns(setWithdrawing)}
                rowKey={(row) => row.id}
                empty={
                  <EmptyState icon="price" title="No price">
                    Until one is set, callers with a spend limit are refused: a key's cap, a personal limit, or an
                    organization without open-ended pay-as-you-go.
                  </EmptyState>
                }
              />
            </Card>
            {data.visibility === 'private' && <Grants model={data} />}
            <Reminders model={data.id} />
            {dialog === 'model' && <ModelDialog model={data} onClose={() => setDialog(null)} />}
            {dialog === 'deletion' && <DeleteModelDialog model={data} onClose={() => setDialog(null)} />}
            {dialog === 'price' && <PriceDialog model={data.id} prices={data.prices} onClose={() => setDialog(null)} />}
            {withdrawing !== null && <WithdrawPriceDialog price={withdrawing} onClose={() => setWithdrawing(null)} />}
            {dialog === 'deployment' && <DeploymentDialog model={data.id} onClose={() => setDialog(null)} />}
            {dialog !== null && typeof dialog === 'object' && (
              <DeploymentDialog model={data.id} deployment={dialog} onClose={() => setDialog(null)} />
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

const isUpcoming = (price: AdminPrice): boolean => !hasBegun(price, currentMs());

function deploymentColumns(edit: (deployment: AdminDeployment) => void): readonly Column<AdminDeployment>[] {
  return [
    {
      name: 'Upstream',
      cell: (row) => (
        <span className="wrap-anywhere">
          <span className="block font-mono text-xs">{row.base_url || row.dialect}</span>
          <span className="text-xs text-faint">{row.upstream_model}</span>
        </span>
      ),
    },
    {
      name: 'Status',
      cell: (row) => (
        <span className="wrap-anywhere">
          <DeploymentStatus status={row.status} />
          {row.status_reason !== null && <span className="block text-xs text-soft">{row.status_reason}</span>}
        </span>
      ),
    },
    { name: 'Since', cell: (row) => <Time value={row.status_changed_at} relative /> },
    { name: 'Priority', end: true, sortBy: (row) => row.priority, cell: (row) => row.priority },
    { name: 'Weight', end: true, sortBy: (row) => row.weight, cell: (row) => row.weight },
    { name: 'Concurrency', end: true, cell: (row) => formatCount(row.concurrency_limit) },
    {
      name: '',
      end: true,
      cell: (row) => (
        <span className="inline-flex flex-wrap justify-end gap-1.5">
          <ButtonLink
            size="small"
            aria-label={`Failed calls of ${row.upstream_model} at ${row.base_url || row.dialect}`}
            href={failedCallsOf(row)}
          >
            Failed calls
          </ButtonLink>
          <Button
            size="small"
            aria-label={`Edit ${row.upstream_model} at ${row.base_url || row.dialect}`}
            onClick={() => edit(row)}
          >
            Edit
          </Button>
        </span>
      ),
    },
  ];
}

function priceColumns(withdraw: (price: AdminPrice) => void): readonly Column<AdminPrice>[] {
  return [
    {
      name: 'In force from',
      sortBy: (row) => row.effective_from,
      cell: (row) => (
        <span className="flex items-center gap-2">
          <Time value={row.effective_from} />
          {isUpcoming(row) && <Badge tone="accent">Upcoming</Badge>}
        </span>
      ),
    },
    {
      name: 'Rates',
      cell: (row) => {
        const lines = priceLines(row);
        if (lines.length === 0) return 'Free';
        return lines.map(({ amount, unit }) => (
          <span key={unit} className="block tabular">
            {amount} {unit}
          </span>
        ));
      },
    },
    { name: 'Version', cell: (row) => <code className="font-mono text-xs text-faint wrap-anywhere">{row.id}</code> },
    {
      name: '',
      end: true,
      cell: (row) =>
        isUpcoming(row) && (
          <Button
            size="small"
            aria-label={`Withdraw the price from ${formatUtc(row.effective_from)} on`}
            onClick={() => withdraw(row)}
          >
            Withdraw
          </Button>
        ),
    },
  ];
}
