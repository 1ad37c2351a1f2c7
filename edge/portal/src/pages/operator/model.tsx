import { useState } from 'react';
import { useAction, useGet } from '../../api/hooks.ts';
import type { PageParameters } from '../../router/routed-page.tsx';
import { Badge } from '../../ui/badge.tsx';
import { Button, ButtonLink } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { Page } from '../../ui/page.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';
import { DeploymentStatus } from '../models/model.tsx';
import { RetiringBadge } from '../models/model-badges.tsx';
import { priceSummary } from '../models/prices.ts';
import { DeploymentDialog } from './deployment-dialog.tsx';
import { PriceDialog } from './price-dialog.tsx';
import type { AdminDeployment, AdminModel, AdminPrice } from './types.ts';

const refreshMs = 5000;

export function OperatorModel({ parameters }: PageParameters) {
  const id = parameters.id ?? '';
  const model = useGet<AdminModel>(`/admin/models/${encodeURIComponent(id)}`, undefined, {
    refetchIntervalMs: refreshMs,
    keepPrevious: false,
  });
  const [dialog, setDialog] = useState<'price' | 'deployment' | AdminDeployment | null>(null);
  return (
    <Page
      title={model.data?.display_name ?? id}
      parent={{ name: 'Model catalog', href: '/operator/models' }}
      badge={model.data === undefined ? undefined : <RetiringBadge model={model.data} />}
      description={<code className="font-mono text-sm wrap-anywhere">{id}</code>}
      actions={
        <ButtonLink icon="sunset" href={`/operator/retirements?model=${encodeURIComponent(id)}`}>
          Retirement
        </ButtonLink>
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
                  <EmptyState icon="server" title="Nowhere to run">
                    Add a deployment: an upstream that serves this model.
                  </EmptyState>
                }
              />
            </Card>
            <Card
              flush
              title="Prices"
              description="A version never changes; a new one supersedes it from its own moment on."
              action={
                <Button size="small" icon="plus" onClick={() => setDialog('price')}>
                  Set price
                </Button>
              }
            >
              <Table
                label="Prices"
                rows={data.prices}
                columns={priceColumns}
                rowKey={(row) => row.id}
                empty={
                  <EmptyState icon="price" title="No price">
                    Callers with a spend cap are refused until one is set.
                  </EmptyState>
                }
              />
            </Card>
            {data.visibility === 'private' && <Grants model={data} />}
            {dialog === 'price' && <PriceDialog model={data.id} onClose={() => setDialog(null)} />}
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
        <span title={row.status_reason ?? undefined}>
          <DeploymentStatus status={row.status} />
        </span>
      ),
    },
    { name: 'Since', cell: (row) => <Time value={row.status_changed_at} relative /> },
    { name: 'Priority', end: true, sortBy: (row) => row.priority, cell: (row) => row.priority },
    { name: 'Weight', end: true, sortBy: (row) => row.weight, cell: (row) => row.weight },
    {
      name: 'Concurrency',
      end: true,
      cell: (row) =>
        row.concurrency_limit === 0 || row.concurrency_limit == null ? 'No limit' : row.concurrency_limit,
    },
    {
      name: '',
      end: true,
      cell: (row) => (
        <Button size="small" onClick={() => edit(row)}>
          Edit
        </Button>
      ),
    },
  ];
}

const priceColumns: readonly Column<AdminPrice>[] = [
  {
    name: 'In force from',
    sortBy: (row) => row.effective_from,
    cell: (row) => (
      <span className="flex items-center gap-2">
        <Time value={row.effective_from} />
        {Date.parse(row.effective_from) > Date.now() && <Badge tone="accent">Later</Badge>}
      </span>
    ),
  },
  { name: 'Rates', cell: (row) => <span className="tabular">{priceSummary(row)}</span> },
  { name: 'Version', cell: (row) => <code className="font-mono text-xs text-faint">{row.id}</code> },
];

function Grants({ model }: { model: AdminModel }) {
  const toast = useToast();
  const [tenant, setTenant] = useState('');
  const grant = useAction({
    stale: ['/admin/models'],
    onSuccess: () => {
      setTenant('');
      toast.say('The model is granted.');
    },
  });
  const revoke = useAction({
    stale: ['/admin/models'],
    onSuccess: () => toast.say('The grant is taken back.'),
    onError: toast.complain,
  });
  const path = `/admin/grants?model=${encodeURIComponent(model.id)}&tenant_id=`;
  return (
    <Card title="Grants" description="The organizations for which this private model exists.">
      <ul className="mb-4 grid gap-2 text-sm">
        {model.granted_tenant_ids.map((id) => (
          <li key={id} className="flex items-center justify-between gap-3">
            <code className="font-mono text-xs wrap-anywhere">{id}</code>
            <Button
              size="small"
              pending={revoke.pending}
              onClick={() => revoke.run({ method: 'DELETE', path: path + encodeURIComponent(id) })}
            >
              Take back
            </Button>
          </li>
        ))}
        {model.granted_tenant_ids.length === 0 && <li className="text-faint">None.</li>}
      </ul>
      <Form
        onSubmit={() =>
          grant.run({ method: 'POST', path: '/admin/grants', body: { model: model.id, tenant_id: tenant.trim() } })
        }
        className="grid gap-3 sm:max-w-lg"
      >
        <FormError error={grant.error} fields={['tenant_id']} />
        <TextField
          label="Organization id"
          spellCheck={false}
          className="font-mono"
          value={tenant}
          onChange={setTenant}
          error={fieldError(grant.error, 'tenant_id')}
        />
        <div>
          <Button type="submit" pending={grant.pending} disabled={tenant.trim() === ''}>
            Grant
          </Button>
        </div>
      </Form>
    </Card>
  );
}
