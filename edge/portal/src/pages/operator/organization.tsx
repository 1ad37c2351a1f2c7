import { useState } from 'react';
import { useGet } from '../../api/hooks.ts';
import { formatCount, formatUsd } from '../../format/number.ts';
import type { PageParameters } from '../../router/routed-page.tsx';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card, Facts, Tile, TileRow } from '../../ui/card.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Page } from '../../ui/page.tsx';
import { Time } from '../../ui/time.tsx';
import { CommitmentForm, CreditForm } from './money-forms.tsx';
import { OrganizationInvoices } from './organization-invoices.tsx';
import { OrganizationSettings } from './organization-settings.tsx';
import { isSuspended } from './organizations.tsx';
import { SuspensionDialog } from './suspension.tsx';
import type { Account, AdminOrganization } from './types.ts';

export function OperatorOrganization({ parameters }: PageParameters) {
  const path = `/admin/organizations/${parameters.id ?? ''}`;
  const organization = useGet<AdminOrganization>(path, undefined, { keepPrevious: false });
  const [changing, setChanging] = useState(false);
  const data = organization.data;
  return (
    <Page
      title={data?.name ?? 'Organization'}
      parent={{ name: 'Organizations', href: '/operator/organizations' }}
      badge={data !== undefined && isSuspended(data) ? <Badge tone="danger">Suspended</Badge> : undefined}
      actions={
        data === undefined ? undefined : (
          <Button look={isSuspended(data) ? 'primary' : 'danger'} onClick={() => setChanging(true)}>
            {isSuspended(data) ? 'Restore' : 'Suspend'}
          </Button>
        )
      }
    >
      <Loaded of={organization}>
        {(loaded) => (
          <>
            {isSuspended(loaded) && (
              <Notice tone="danger">
                Suspended since <Time value={loaded.suspended_at} />. {loaded.suspension_reason}
              </Notice>
            )}
            <AccountTiles path={`${path}/account`} />
            <div className="grid items-start gap-5 lg:grid-cols-2">
              <Card title="About">
                <Facts
                  facts={[
                    [
                      'Id',
                      <span key="id" className="flex flex-wrap items-center gap-2">
                        <code className="font-mono text-xs">{loaded.id}</code>
                        <CopyButton text={loaded.id} />
                      </span>,
                    ],
                    ['Created', <Time key="created" value={loaded.created_at} />],
                    ['Members', loaded.member_count === undefined ? '—' : formatCount(loaded.member_count)],
                    [
                      'Keys per user',
                      loaded.key_quota === null
                        ? 'Unlimited'
                        : loaded.key_quota === undefined
                          ? '—'
                          : formatCount(loaded.key_quota),
                    ],
                  ]}
                />
              </Card>
              <OrganizationSettings organization={loaded} path={path} />
              <CreditForm path={path} />
              <CommitmentForm path={`${path}/commitments`} />
            </div>
            <OrganizationInvoices path={path} />
            {changing && <SuspensionDialog organization={loaded} path={path} onClose={() => setChanging(false)} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function AccountTiles({ path }: { path: string }) {
  const account = useGet<Account>(path, undefined, { keepPrevious: false });
  return (
    <Loaded of={account}>
      {(data) => (
        <TileRow>
          <Tile label="Plan" value={data.plan?.name ?? '—'} />
          <Tile label="Credit left" value={data.wallet == null ? '—' : formatUsd(data.wallet.balance_usd)} />
          <Tile
            label="Commitment left"
            value={data.commitment == null ? '—' : formatUsd(data.commitment.remaining_usd)}
          />
          <Tile label="Unpaid invoices" value={formatUsd(data.receivable_usd)} />
        </TileRow>
      )}
    </Loaded>
  );
}
