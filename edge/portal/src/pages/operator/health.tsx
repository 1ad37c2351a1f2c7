import { useQuery } from '@tanstack/react-query';
import { Link } from '../../router/link.tsx';
import { Status } from '../../ui/badge.tsx';
import { ButtonLink } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { DeploymentStatus } from '../models/model.tsx';
import { failedCallsOf } from './calls-filtered.ts';
import type { AdminDeployment } from './types.ts';

const refreshMs = 3000;
type Probe = { path: string; status: number; body: string };

export function Health() {
  return (
    <Page
      title="Health"
      description="Of the process that answered, and of every deployment. Prometheus metrics are at /metrics."
    >
      <div className="grid gap-5 sm:grid-cols-2">
        <ProbeCard title="Alive" path="/healthz" />
        <ProbeCard title="Ready" path="/readyz" />
      </div>
      <PagedCard<AdminDeployment>
        title="Deployments"
        description="Those that need attention come first."
        label="Deployments"
        path="/admin/deployments"
        query={{ troubled_first: true, limit: 100 }}
        columns={columns}
        rowKey={(row) => row.id}
        empty={<EmptyState icon="server" title="No deployments" />}
        options={{ refetchIntervalMs: refreshMs }}
      />
    </Page>
  );
}

const columns: readonly Column<AdminDeployment>[] = [
  {
    name: 'Model',
    sortBy: (row) => row.model,
    cell: (row) => (
      <Link
        href={`/operator/models/${encodeURIComponent(row.model)}`}
        className="font-mono text-xs wrap-anywhere hover:underline"
      >
        {row.model}
      </Link>
    ),
  },
  {
    name: 'Upstream',
    cell: (row) => <span className="font-mono text-xs wrap-anywhere">{row.base_url || row.dialect}</span>,
  },
  { name: 'Status', sortBy: (row) => row.status, cell: (row) => <DeploymentStatus status={row.status} /> },
  { name: 'Since', cell: (row) => <Time value={row.status_changed_at} relative /> },
  { name: 'Reason', cell: (row) => <span className="text-soft wrap-anywhere">{row.status_reason || '—'}</span> },
  {
    name: '',
    end: true,
    cell: (row) => (
      <ButtonLink size="small" href={failedCallsOf(row)} aria-label={`Failed calls of ${row.model}`}>
        Failed calls
      </ButtonLink>
    ),
  },
];

/** The probes are outside /api/v1 and need no session: they are asked as an orchestrator would ask them. */
function ProbeCard({ title, path }: { title: string; path: string }) {
  const probe = useQuery<Probe>({
    queryKey: ['probe', path],
    queryFn: async ({ signal }) => {
      const response = await fetch(path, { signal });
      return { path, status: response.status, body: (await response.text()).slice(0, 2000) };
    },
    refetchInterval: refreshMs,
  });
  return (
    <Card title={title}>
      {probe.isError ? (
        // The latest answer is kept, but says nothing about now.
        <Status tone="danger">No answer</Status>
      ) : probe.data === undefined ? (
        <p className="text-sm text-faint">Checking…</p>
      ) : (
        <>
          <Status tone={probe.data.status === 200 ? 'good' : 'danger'}>
            {probe.data.status === 200 ? 'Yes' : `No (${probe.data.status})`}
          </Status>
          {probe.data.body.trim().startsWith('{') && (
            <pre className="mt-3 max-h-40 overflow-auto font-mono text-xs whitespace-pre-wrap text-soft wrap-anywhere">
              {probe.data.body}
            </pre>
          )}
        </>
      )}
    </Card>
  );
}
