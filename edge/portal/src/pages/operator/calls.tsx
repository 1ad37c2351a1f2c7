import { formatDurationMs } from '../../format/number.ts';
import { useSearchParameter } from '../../router/router.ts';
import { Card } from '../../ui/card.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { MonoName } from '../../ui/name-parts.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import { ShortId } from '../../ui/short-id.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { RequestStatus } from '../usage/request-dialog.tsx';
import { OrganizationName } from './organization-name.tsx';
import type { AdminCall, AdminKey } from './types.ts';

/** The page with all calls of one key, such as one that leaked. */
export const callsOfKey = ({
  id,
  tenant_id,
  key_preview,
}: Pick<AdminKey, 'id' | 'tenant_id' | 'key_preview'>): string =>
  `/operator/calls?${new URLSearchParams({ organization: tenant_id, key: id, preview: key_preview })}`;

/** Calls of any organization: by the request id that their client quotes, or all of a key. */
export function OperatorCalls() {
  const requestId = useSearch();
  const [organization] = useSearchParameter('organization', '');
  const [key] = useSearchParameter('key', '');
  const [preview] = useSearchParameter('preview', '');
  return (
    <Page
      title="Calls"
      description="Of any organization: by request id, the x-request-id of the answer, which clients are told to quote; or all of a key, from its menu in All keys."
    >
      <SearchBox label="Request id" />
      {requestId === '' && organization === '' ? (
        <Card>
          <EmptyState icon="search" title="Paste a request id" />
        </Card>
      ) : (
        <PagedCard<AdminCall>
          label="Calls"
          title={requestId === '' ? `Calls of ${preview === '' ? 'the key' : preview}` : undefined}
          path="/admin/calls"
          query={requestId === '' ? { tenant_id: organization, api_key_id: key } : { request_id: requestId }}
          columns={columns}
          rowKey={(call) => call.id}
          empty={
            requestId === '' ? (
              <EmptyState icon="pulse" title="It has made no calls" />
            ) : (
              <EmptyState icon="search" title="No call has this id">
                A call that was refused before it reached a model is not listed; the log says why.
              </EmptyState>
            )
          }
        />
      )}
    </Page>
  );
}

const columns: readonly Column<AdminCall>[] = [
  { name: 'Time', cell: (call) => <Time value={call.occurred_at} /> },
  { name: 'Organization', cell: (call) => <OrganizationName id={call.tenant_id} /> },
  { name: 'Model', cell: (call) => <MonoName name={call.model} /> },
  { name: 'Deployment', cell: (call) => (call.deployment_id === null ? '—' : <ShortId id={call.deployment_id} />) },
  { name: 'Status', cell: (call) => <RequestStatus event={call} /> },
  { name: 'Latency', end: true, cell: (call) => formatDurationMs(call.latency_ms) },
  { name: 'Cost', usd: (call) => call.cost_usd },
];
