import { useState } from 'react';
import { useGet, useIsAdmin } from '../../api/hooks.ts';
import type { ApiKey } from '../../api/types.ts';
import type { PageParameters } from '../../router/routed-page.tsx';
import { navigate } from '../../router/router.ts';
import { Status } from '../../ui/badge.tsx';
import { Button, IconButton } from '../../ui/button.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Menu } from '../../ui/menu.tsx';
import { Page } from '../../ui/page.tsx';
import { Analytics } from './analytics/analytics.tsx';
import { ExpiryBadge, KeyStatus, statusOf } from './key-badges.tsx';
import { type KeyDialog, KeyDialogs } from './key-dialogs.tsx';
import { KeyFacts } from './key-facts.tsx';
import { OtherKey } from './other-key.tsx';

const parent = { name: 'API keys', href: '/keys' };

export function KeyPage({ parameters }: PageParameters) {
  const id = parameters.id ?? '';
  const key = useGet<ApiKey>(`/api-keys/${id}`, undefined, { keepPrevious: false });
  const isAdmin = useIsAdmin();
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
                ...(isAdmin ? ([{ label: 'Audit events', icon: 'log', href: `/audit?target=${id}` }] as const) : []),
                'line',
                { label: 'Delete', icon: 'trash', danger: true, onSelect: () => setDialog('delete') },
              ]}
            />
          </>
        )
      }
    >
      <KeyFacts apiKey={apiKey} />
      <Analytics keyId={id} />
      <KeyDialogs
        dialog={dialog === null ? null : { kind: dialog, apiKey }}
        onClose={() => setDialog(null)}
        onDeleted={() => navigate('/keys')}
      />
    </Page>
  );
}
