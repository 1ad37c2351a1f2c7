import { formatDurationMs } from '../../format/number.ts';
import { Card } from '../../ui/card.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { NameParts } from '../../ui/name-parts.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import { ShortId } from '../../ui/short-id.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { RequestStatus } from '../usage/request-dialog.tsx';
import { OrganizationName } from './organization-name.tsx';
import type { AdminCall } from './types.ts';

/** A call of any organization, by the request id that its client quotes. */
export function OperatorCalls() {
  const requestId = useSearch();
  return (
    <Page
      title="Find a call"
      description="Of any organization, by its request id: the x-request-id of its answer, which clients are told to quote."
    >
      <SearchBox label="Request id" />
      {requestId === '' ? (
        <Card>
          <EmptyState icon="search" title="Paste a request id" />
        </Card>
      ) : (
        <PagedCard<AdminCall>
          label="Calls"
          path="/admin/calls"
          query={{ request_id: requestId }}
          columns={columns}
          rowKey={(call) => call.id}
          empty={
            <EmptyState icon="search" title="No call has this id">
              A call that was refused before it reached a model is not listed; the log says why.
            </EmptyState>
          }
        />
      )}
    </Page>
  );
}

const columns: readonly Column<AdminCall>[] = [
  { name: 'Time', cell: (call) => <Time value={call.occurred_at} /> },
  { name: 'Organization', cell: (call) => <OrganizationName id={call.tenant_id} /> },
  {
    name: 'Model',
    cell: (call) => (
      <span className="block min-w-24 font-mono text-xs wrap-anywhere">
        <NameParts name={call.model} />
      </span>
    ),
  },
  { name: 'Deployment', cell: (call) => (call.deployment_id === null ? '—' : <ShortId id={call.deployment_id} />) },
  { name: 'Status', cell: (call) => <RequestStatus event={call} /> },
  { name: 'Latency', end: true, cell: (call) => formatDurationMs(call.latency_ms) },
  { name: 'Cost', usd: (call) => call.cost_usd },
];
