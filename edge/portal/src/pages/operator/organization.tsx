import { useState } from 'react';
import { useGet } from '../../api/hooks.ts';
import { formatCount, formatUsd } from '../../format/number.ts';
import type { PageParameters } from '../../router/routed-page.tsx';
import { useSearchParameter } from '../../router/router.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button, ButtonLink } from '../../ui/button.tsx';
import { Card, Facts, Tile, TileRow } from '../../ui/card.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Page } from '../../ui/page.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { Time } from '../../ui/time.tsx';
import { callsMeeting } from './calls-filtered.ts';
import { ChainCheck } from './chain-check.tsx';
import { CreditForm } from './money-forms.tsx';
import { OrganizationCommitments } from './organization-commitments.tsx';
import { OrganizationInvitations } from './organization-invitations.tsx';
import { OrganizationInvoices } from './organization-invoices.tsx';
import { OrganizationMembers } from './organization-members.tsx';
import { OrganizationSettings } from './organization-settings.tsx';
import { OrganizationTransactions } from './organization-transactions.tsx';
import { SuspensionDialog } from './suspension.tsx';
import type { Account, AdminOrganizationDetails } from './types.ts';

export function OperatorOrganization({ parameters }: PageParameters) {
  const path = `/admin/organizations/${parameters.id ?? ''}`;
  const organization = useGet<AdminOrganizationDetails>(path, undefined, { keepPrevious: false });
  const [tab, setTab] = useSearchParameter('tab', 'overview');
  const [changing, setChanging] = useState(false);
  const data = organization.data;
  return (
    <Page
      title={data?.name ?? 'Organization'}
      parent={{ name: 'Organizations', href: '/operator/organizations' }}
      badge={data?.status === 'suspended' ? <Badge tone="danger">Suspended</Badge> : undefined}
      actions={
        data === undefined ? undefined : (
          <>
            <ButtonLink icon="key" href={`/operator/keys?organization=${data.id}`}>
              Keys
            </ButtonLink>
            <ButtonLink icon="pulse" href={callsMeeting({ organization: data.id })}>
              Calls
            </ButtonLink>
            <ButtonLink icon="job" href={`/operator/jobs?organization=${data.id}`}>
              Jobs
            </ButtonLink>
            <Button look={data.status === 'suspended' ? 'primary' : 'secondary'} onClick={() => setChanging(true)}>
              {data.status === 'suspended' ? 'Restore' : 'Suspend'}
            </Button>
          </>
        )
      }
    >
      <Loaded of={organization}>
        {(loaded) => (
          <>
            {loaded.status === 'suspended' && (
              <Notice tone="danger">
                Suspended since <Time value={loaded.suspended_at} />. {loaded.suspension_reason}
              </Notice>
            )}
            <AccountTiles path={`${path}/account`} />
            <Tabs
              label={loaded.name}
              value={tab}
              onChange={setTab}
              tabs={[
                { value: 'overview', label: 'Overview', content: <Overview organization={loaded} path={path} /> },
                { value: 'members', label: 'Members', content: <OrganizationMembers tenantId={loaded.id} /> },
                { value: 'invitations', label: 'Invitations', content: <OrganizationInvitations path={path} /> },
                { value: 'invoices', label: 'Invoices', content: <OrganizationInvoices tenantId={loaded.id} /> },
                { value: 'commitments', label: 'Commitments', content: <OrganizationCommitments path={path} /> },
                { value: 'transactions', label: 'Transactions', content: <OrganizationTransactions path={path} /> },
              ]}
            />
            {changing && <SuspensionDialog organization={loaded} path={path} onClose={() => setChanging(false)} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Overview({ organization, path }: { organization: AdminOrganizationDetails; path: string }) {
  return (
    <div className="grid items-start gap-5 lg:grid-cols-2">
      <div className="grid min-w-0 gap-5">
        <Card title="About">
          <Facts
            facts={[
              [
                'Id',
                <span key="id" className="flex flex-wrap items-center gap-2">
                  <code className="font-mono text-xs">{organization.id}</code>
                  <CopyButton text={organization.id} />
                </span>,
              ],
              ['Created', <Time key="created" value={organization.created_at} />],
              ['Members', formatCount(organization.member_count)],
              ['Keys per user', organization.key_quota === null ? 'Unlimited' : formatCount(organization.key_quota)],
            ]}
          />
        </Card>
        <CreditForm path={path} />
        <ChainCheck tenantId={organization.id} />
      </div>
      <OrganizationSettings key={path} organization={organization} path={path} />
    </div>
  );
}

function AccountTiles({ path }: { path: string }) {
  const account = useGet<Account>(path, undefined, { keepPrevious: false });
  return (
    <Loaded of={account}>
      {(data) => (
        <TileRow>
          <Tile label="Plan" value={data.plan.name} />
          <Tile label="Credit left" value={formatUsd(data.wallet.balance_usd)} />
          <Tile
            label="Commitment left"
            value={data.commitment === null ? '—' : formatUsd(data.commitment.remaining_usd)}
          />
          <Tile label="Unpaid invoices" value={formatUsd(data.receivable_usd)} />
        </TileRow>
      )}
    </Loaded>
  );
}
