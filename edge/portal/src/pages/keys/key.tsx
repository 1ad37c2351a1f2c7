import { useState } from 'react';
import { useGet } from '../../api/hooks.ts';
import type { ApiKey } from '../../api/types.ts';
import { formatCount, formatUsd, formatUsdExact } from '../../format/number.ts';
import type { PageParameters } from '../../router/routed-page.tsx';
import { navigate } from '../../router/router.ts';
import { Badge, Status } from '../../ui/badge.tsx';
import { Button, IconButton } from '../../ui/button.tsx';
import { Card, Facts } from '../../ui/card.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Menu } from '../../ui/menu.tsx';
import { Page } from '../../ui/page.tsx';
import { Time } from '../../ui/time.tsx';
import { Analytics } from './analytics/analytics.tsx';
import { ExpiryBadge, KeyStatus, RestrictionBadges, statusOf } from './key-badges.tsx';
import { type KeyDialog, KeyDialogs } from './key-dialogs.tsx';
import { OtherKey } from './other-key.tsx';

const parent = { name: 'API keys', href: '/keys' };

export function KeyPage({ parameters }: PageParameters) {
  const id = parameters.id ?? '';
  const key = useGet<ApiKey>(`/api-keys/${id}`, undefined, { keepPrevious: false });
  const [dialog, setDialog] = useState<KeyDialog['kind'] | null>(null);
  const apiKey = key.data;
  const isGone = key.error?.status === 404;
  if (apiKey === undefined) {
    if (isGone) return <OtherKey id={id} />;
    return (
      <Page title="API key" parent={parent}>
        <Loaded of={key}>{() => null}</Loaded>
      </Page>
    );
  }
  return (
    <Page
      title={apiKey.name}
      parent={parent}
      badge={
        isGone ? (
          <Status tone="danger">Deleted</Status>
        ) : (
          <>
            <KeyStatus status={statusOf(apiKey)} />
            <ExpiryBadge apiKey={apiKey} />
          </>
        )
      }
      description={<code className="font-mono text-sm">{apiKey.key_preview}</code>}
      actions={
        isGone ? undefined : (
          <>
            {apiKey.revoked_at === null && (
              <>
                <Button icon="settings" onClick={() => setDialog('edit')}>
                  Edit
                </Button>
                <Button icon="refresh" onClick={() => setDialog('rotate')}>
                  Rotate
                </Button>
              </>
            )}
            <Menu
              trigger={<IconButton icon="more" label="More actions" />}
              items={[
                { label: 'Requests and costs', icon: 'chart', href: `/usage?by=request&key=${id}` },
                'line',
                { label: 'Delete', icon: 'trash', danger: true, onSelect: () => setDialog('delete') },
              ]}
            />
          </>
        )
      }
    >
      <Card>
        <div className="grid gap-x-10 gap-y-3 lg:grid-cols-2">
          <Facts
            facts={[
              [
                'Type',
                <span key="type" className="capitalize">
                  {apiKey.key_type}
                </span>,
              ],
              ['Created', <Time key="created" value={apiKey.created_at} />],
              apiKey.revoked_at === null
                ? ['Expires', <Time key="expires" value={apiKey.expires_at} none="Never" />]
                : ['Revoked', <Time key="revoked" value={apiKey.revoked_at} />],
              ['Last used', <Time key="used" value={apiKey.last_used_at} relative none="Never" />],
              ['Uses', formatCount(apiKey.usage_count)],
            ]}
          />
          <Facts
            facts={[
              ['Restrictions', <RestrictionBadges key="restrictions" apiKey={apiKey} none="None" />],
              [
                'Spent today',
                apiKey.budget?.spent_today_usd == null
                  ? '—'
                  : `${formatUsd(apiKey.budget.spent_today_usd)} of ${formatUsdExact(apiKey.spend_cap_usd ?? 0)}`,
              ],
              [
                'Scopes',
                <span key="scopes" className="flex flex-wrap gap-1">
                  {apiKey.scopes.map((scope) => (
                    <Badge key={scope} wraps>
                      {scope}
                    </Badge>
                  ))}
                </span>,
              ],
            ]}
          />
        </div>
      </Card>
      <Analytics keyId={id} />
      <KeyDialogs
        dialog={dialog === null ? null : { kind: dialog, apiKey }}
        onClose={() => setDialog(null)}
        onDeleted={() => navigate('/keys')}
      />
    </Page>
  );
}
