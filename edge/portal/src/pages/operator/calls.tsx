import { useMemo, useState } from 'react';
import { useEmails } from '../../api/use-emails.ts';
import { formatDurationMs } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { useSearchParameter } from '../../router/router.ts';
import { ButtonLink } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { MonoName } from '../../ui/name-parts.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import { ShortId } from '../../ui/short-id.tsx';
import type { Column } from '../../ui/table.tsx';
import { chargeQuery } from '../billing/transactions.tsx';
import { RequestDialog, RequestStatus, RequestTime } from '../usage/request-dialog.tsx';
import { OrganizationName, useOrganizationName } from './organization-name.tsx';
import type { AdminCall, AdminKey } from './types.ts';
import { UserLink } from './user-link.tsx';

/** The page with all calls of one key, such as one that leaked. */
export const callsOfKey = ({
  id,
  tenant_id,
  key_preview = '',
}: Pick<AdminKey, 'id' | 'tenant_id'> & Partial<Pick<AdminKey, 'key_preview'>>): string =>
  `/operator/calls?${new URLSearchParams({ organization: tenant_id, key: id, preview: key_preview })}`;

/** Calls of any organization: by the request id that their client quotes, or all of an organization or a key. */
export function OperatorCalls() {
  const requestId = useSearch();
  const [organization] = useSearchParameter('organization', '');
  const [key] = useSearchParameter('key', '');
  const [preview] = useSearchParameter('preview', '');
  const name = useOrganizationName(organization === '' ? null : organization);
  const [open, setOpen] = useState<AdminCall | null>(null);
  const columns = useMemo(() => columnsOf(setOpen), []);
  const whose = key === '' ? (name ?? 'the organization') : preview || `the key …${key.slice(-8)}`;
  return (
    <Page
      title="Calls"
      description="Of any organization: by request id, the x-request-id of the answer, which clients are told to quote; or all of an organization, from its page, or of a key, from its menu in All keys."
    >
      <SearchBox label="Request id" />
      {requestId === '' && organization === '' ? (
        <Card>
          <EmptyState icon="search" title="Paste a request id" />
        </Card>
      ) : (
        <PagedCard<AdminCall>
          label="Calls"
          title={requestId === '' ? `Calls of ${whose}` : undefined}
          path="/admin/calls"
          query={requestId === '' ? { tenant_id: organization, api_key_id: key } : { request_id: requestId }}
          columns={columns}
          rowKey={(call) => call.id}
          empty={
            requestId === '' ? (
              <EmptyState icon="pulse" title="There were no calls" />
            ) : (
              <EmptyState icon="search" title="No call has this id">
                A call that was refused before it reached a model is not listed; the log says why.
              </EmptyState>
            )
          }
        />
      )}
      {open !== null && <CallDialog call={open} onClose={() => setOpen(null)} />}
    </Page>
  );
}

/** What is known of a call, and the ways from it: to whose it was, to all calls of its key, and to its charge. */
function CallDialog({ call, onClose }: { call: AdminCall; onClose: () => void }) {
  const { tenant_id, user_id, api_key_id, deployment_id } = call;
  const emails = useEmails([user_id]);
  return (
    <RequestDialog
      event={call}
      by={
        api_key_id === null ? (
          'None: a session'
        ) : (
          <Link
            href={callsOfKey({ id: api_key_id, tenant_id })}
            className="hover:underline"
            title="All calls of this key"
            onClick={onClose}
          >
            <ShortId id={api_key_id} />
          </Link>
        )
      }
      facts={[
        ['Organization', <OrganizationName key="organization" id={tenant_id} />],
        ['User', <UserLink key="user" tenantId={tenant_id} id={user_id} email={emails.get(user_id)} />],
        ['Deployment', deployment_id === null ? '—' : <ShortId key="deployment" id={deployment_id} />],
      ]}
      action={
        call.cost_usd > 0 ? (
          <ButtonLink href={`/operator/organizations/${tenant_id}${chargeQuery(call)}`}>Charge and refund</ButtonLink>
        ) : undefined
      }
      onClose={onClose}
    />
  );
}

const columnsOf = (open: (call: AdminCall) => void): readonly Column<AdminCall>[] => [
  { name: 'Time', cell: (call) => <RequestTime event={call} onOpen={() => open(call)} /> },
  { name: 'Organization', cell: (call) => <OrganizationName id={call.tenant_id} /> },
  { name: 'Model', cell: (call) => <MonoName name={call.model} /> },
  { name: 'Deployment', cell: (call) => (call.deployment_id === null ? '—' : <ShortId id={call.deployment_id} />) },
  { name: 'Status', cell: (call) => <RequestStatus event={call} /> },
  { name: 'Latency', end: true, cell: (call) => formatDurationMs(call.latency_ms) },
  { name: 'Cost', usd: (call) => call.cost_usd },
];
