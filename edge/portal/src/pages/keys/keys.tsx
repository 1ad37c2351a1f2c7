import { useMemo, useState } from 'react';
import { useGet } from '../../api/hooks.ts';
import type { ApiKey, KeyList } from '../../api/types.ts';
import { formatCount } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { usePageParameter, useSearchParameter } from '../../router/router.ts';
import { Button, IconButton } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Select } from '../../ui/field.tsx';
import { Menu } from '../../ui/menu.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedTable } from '../../ui/paged-table.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { CreateKeyDialog } from './create-key.tsx';
import { ExpiryBadge, KeyStatus, RestrictionBadges, ScopesBadge, statusOf } from './key-badges.tsx';
import { type KeyDialog, KeyDialogs } from './key-dialogs.tsx';

export function Keys() {
  const search = useSearch();
  const [type, setType] = useSearchParameter('type', '');
  const [status, setStatus] = useSearchParameter('status', '');
  const [page, setPage] = usePageParameter();
  const [create, setCreate] = useSearchParameter('create', '');
  const [dialog, setDialog] = useState<KeyDialog | null>(null);
  const keys = useGet<KeyList>('/api-keys', { page, limit: 20, key_type: type, status, search });
  const columns = useMemo(() => columnsOf(setDialog), []);
  const filtered = search !== '' || type !== '' || status !== '';
  return (
    <Page
      title="API keys"
      description="Your own keys. Teammates manage their own."
      actions={
        <Button look="primary" icon="plus" onClick={() => setCreate('1')}>
          Create key
        </Button>
      }
    >
      <div className="flex flex-wrap items-center gap-2">
        <SearchBox label="Search keys" placeholder="Name or preview" />
        <Select
          aria-label="Type"
          value={type}
          onChange={setType}
          choices={[
            { value: '', label: 'All types' },
            { value: 'inference', label: 'Inference' },
            { value: 'management', label: 'Management' },
          ]}
        />
        <Select
          aria-label="Status"
          value={status}
          onChange={setStatus}
          choices={[
            { value: '', label: 'All statuses' },
            { value: 'active', label: 'Active' },
            { value: 'expired', label: 'Expired or revoked' },
          ]}
        />
      </div>
      <Card flush>
        <Loaded of={keys}>
          {(list) => (
            <>
              <PagedTable
                label="API keys"
                list={list}
                onPage={setPage}
                columns={columns}
                rowKey={(key) => key.id}
                empty={
                  filtered ? (
                    <EmptyState icon="search" title="No keys match these filters" />
                  ) : (
                    <EmptyState
                      icon="key"
                      title="No keys yet"
                      action={
                        <Button look="primary" icon="plus" onClick={() => setCreate('1')}>
                          Create your first key
                        </Button>
                      }
                    >
                      A key lets a program call models as you, within the scopes, models, addresses and daily spend cap
                      that you choose.
                    </EmptyState>
                  )
                }
              />
              <Quota list={list} />
            </>
          )}
        </Loaded>
      </Card>
      <CreateKeyDialog open={create !== ''} onClose={() => setCreate('')} />
      <KeyDialogs dialog={dialog} onClose={() => setDialog(null)} />
    </Page>
  );
}

/** How much of the quota is used, if there is one; every key that is not deleted counts. */
function Quota({ list: { quota } }: { list: KeyList }) {
  if (quota.limit === null) return null;
  return (
    <p className="border-t border-line px-5 py-2.5 text-xs text-faint">
      {formatCount(quota.used)} of {formatCount(quota.limit)} keys. Expired and revoked ones count until they are
      deleted.
    </p>
  );
}

function columnsOf(open: (dialog: KeyDialog) => void): readonly Column<ApiKey>[] {
  return [
    {
      name: 'Name',
      sortBy: (key) => key.name.toLowerCase(),
      cell: (key) => (
        <div className="min-w-0">
          <span className="flex flex-wrap items-center gap-x-2 gap-y-1">
            <Link
              href={`/keys/${key.id}`}
              className="max-w-full truncate font-medium hover:underline @min-[58rem]:max-w-48 @min-[66rem]:max-w-64"
              title={key.name}
            >
              {key.name}
            </Link>
            <ExpiryBadge apiKey={key} />
          </span>
          <code className="font-mono text-xs text-faint">{key.key_preview}</code>
        </div>
      ),
    },
    { name: 'Type', sortBy: (key) => key.key_type, cell: (key) => <span className="capitalize">{key.key_type}</span> },
    {
      name: 'Scopes',
      sortBy: (key) => key.scopes.length,
      cell: (key) => <ScopesBadge scopes={key.scopes} />,
    },
    {
      name: 'Restrictions',
      cell: (key) => <RestrictionBadges apiKey={key} none={<span className="text-faint">None</span>} />,
    },
    { name: 'Status', sortBy: (key) => (key.is_active ? 0 : 1), cell: (key) => <KeyStatus status={statusOf(key)} /> },
    {
      name: 'Last used',
      sortBy: (key) => key.last_used_at ?? '',
      cell: (key) => <Time value={key.last_used_at} relative none="Never" />,
    },
    { name: 'Uses', end: true, sortBy: (key) => key.usage_count, cell: (key) => formatCount(key.usage_count) },
    {
      name: '',
      end: true,
      cell: (key) => (
        <Menu
          trigger={<IconButton icon="more" label={`Actions for ${key.name}`} />}
          items={[
            { label: 'Analytics', icon: 'chart', href: `/keys/${key.id}` },
            ...(key.revoked_at === null
              ? ([
                  { label: 'Edit', icon: 'settings', onSelect: () => open({ kind: 'edit', apiKey: key }) },
                  { label: 'Rotate secret', icon: 'refresh', onSelect: () => open({ kind: 'rotate', apiKey: key }) },
                ] as const)
              : []),
            'line',
            { label: 'Delete', icon: 'trash', danger: true, onSelect: () => open({ kind: 'delete', apiKey: key }) },
          ]}
        />
      ),
    },
  ];
}
