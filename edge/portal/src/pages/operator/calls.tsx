import { useMemo, useState } from 'react';
import { useEmails } from '../../api/use-emails.ts';
import { formatDurationMs } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { ButtonLink } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { DayFilter } from '../../ui/day-filter.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { MonoName } from '../../ui/name-parts.tsx';
import { Narrowed } from '../../ui/narrowed.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import { SearchBox } from '../../ui/search-box.tsx';
import { ShortId } from '../../ui/short-id.tsx';
import type { Column } from '../../ui/table.tsx';
import { chargeQuery } from '../billing/transactions.tsx';
import { RequestDialog, RequestStatus, RequestTime } from '../usage/request-dialog.tsx';
import { OutcomeFilter } from '../usage/request-filters.tsx';
import { callsOfKey, failedCallsOf, useCallFilters } from './calls-filtered.ts';
import { ModelFilter } from './model-filter.tsx';
import { OrganizationName, useOrganizationName } from './organization-name.tsx';
import type { AdminCall } from './types.ts';
import { UserLink } from './user-link.tsx';

/** Calls of any organization: by the id that their client or their charge quotes, or by whatever else is known of them. */
export function OperatorCalls() {
  const { filters, isLookUp, query, isAsked } = useCallFilters();
  const { organization, user, key, preview, model, deployment, outcome, days } = filters;
  const name = useOrganizationName(organization.value);
  const email = useEmails(user.value === '' ? [] : [user.value]).get(user.value);
  const [open, setOpen] = useState<AdminCall | null>(null);
  const columns = useMemo(() => columnsOf(setOpen), []);
  const ofKey = preview.value || `the key …${key.value.slice(-8)}`;
  const ofOrganization = organization.value === '' ? 'all organizations' : (name ?? 'the organization');
  return (
    <Page
      title="Calls"
      description="Of any organization: by request id, the x-request-id of the answer, which clients are told to quote, or by what else is known. Without an organization, of at most seven days: the last ones, or those from or until the day that you choose."
    >
      <div className="flex flex-wrap items-center gap-2">
        <SearchBox label="Request id" />
        <ModelFilter value={model.value} onChange={model.set} off={isLookUp} />
        <OutcomeFilter value={outcome.value} onChange={outcome.set} disabled={isLookUp || deployment.value !== ''} />
        <DayFilter days={days.value} onChange={days.set} disabled={isLookUp} />
        {user.value !== '' && (
          <Narrowed onAll={() => user.set('')}>Only calls of {email ?? `the user …${user.value.slice(-8)}`}</Narrowed>
        )}
        {deployment.value !== '' && (
          <Narrowed onAll={() => deployment.set('')}>
            Only failed calls of the deployment …{deployment.value.slice(-8)}
          </Narrowed>
        )}
      </div>
      {isAsked ? (
        <PagedCard<AdminCall>
          label="Calls"
          title={isLookUp ? undefined : `Calls of ${key.value === '' ? ofOrganization : ofKey}`}
          path="/admin/calls"
          query={query}
          columns={columns}
          rowKey={(call) => call.id}
          empty={
            isLookUp ? (
              <EmptyState icon="search" title="No call has this id">
                A call that was refused before it reached a model is not listed; the log says why.
              </EmptyState>
            ) : (
              <EmptyState icon="pulse" title="There were no such calls" />
            )
          }
        />
      ) : (
        <Card>
          <EmptyState icon="search" title="Paste a request id">
            Or choose a model, a status or days.
          </EmptyState>
        </Card>
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
      jobHref={(id) => `/operator/jobs?search=${id}`}
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
        [
          'Deployment',
          deployment_id === null ? (
            '—'
          ) : (
            <Link
              key="deployment"
              href={failedCallsOf({ id: deployment_id, model: call.model })}
              className="hover:underline"
              title="Its failed calls"
              onClick={onClose}
            >
              <ShortId id={deployment_id} />
            </Link>
          ),
        ],
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
