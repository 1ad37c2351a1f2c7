import { useState } from 'react';
import { useAction, useGet } from '../../api/hooks.ts';
import type { List } from '../../api/types.ts';
import { useEmails } from '../../api/use-emails.ts';
import { formatCount } from '../../format/number.ts';
import { usePageParameter, useSearchParameter } from '../../router/router.ts';
import { Badge } from '../../ui/badge.tsx';
import { IconButton } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Menu } from '../../ui/menu.tsx';
import { Narrowed } from '../../ui/narrowed.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedTable } from '../../ui/paged-table.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';
import { KeyStatus, RestrictionBadges, ScopesBadge } from '../keys/key-badges.tsx';
import { callsOfKey } from './calls-filtered.ts';
import { KeyRateLimitsDialog } from './key-rate-limits.tsx';
import { OrganizationName, useOrganizationName } from './organization-name.tsx';
import { limitLabels, limitNames } from './rate-limit-fields.tsx';
import type { AdminKey } from './types.ts';
import { UserLink } from './user-link.tsx';

export function OperatorKeys() {
  const search = useSearch();
  const [limiting, setLimiting] = useState<AdminKey | null>(null);
  const [revoking, setRevoking] = useState<AdminKey | null>(null);
  const [page, setPage] = usePageParameter();
  const [organization, setOrganization] = useSearchParameter('organization', '');
  const [user, setUser] = useSearchParameter('user', '');
  const organizationName = useOrganizationName(organization);
  const query = { search, tenant_id: organization, user_id: user };
  const keys = useGet<List<AdminKey>>('/admin/keys', { page, limit: 20, ...query });
  const owners = keys.data?.data.map((key) => key.user_id) ?? [];
  const emails = useEmails(user === '' ? owners : [user, ...owners]);
  return (
    <Page
      title="All keys"
      description="The keys of every organization. Nobody can see their secrets, not even operators."
    >
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <SearchBox label="Search keys" placeholder="Search by name or preview" />
        {organization !== '' && (
          <Narrowed onAll={() => setOrganization('')}>Only keys of {organizationName ?? 'one organization'}</Narrowed>
        )}
        {user !== '' && <Narrowed onAll={() => setUser('')}>Only keys of {emails.get(user) ?? 'one user'}</Narrowed>}
      </div>
      <Card flush>
        <Loaded of={keys}>
          {(list) => (
            <PagedTable
              label="Keys"
              list={list}
              onPage={setPage}
              columns={columnsOf({ emails, onLimit: setLimiting, onRevoke: setRevoking })}
              rowKey={(key) => key.id}
              empty={<EmptyState icon="key" title="No keys match" />}
            />
          )}
        </Loaded>
      </Card>
      {limiting !== null && <KeyRateLimitsDialog apiKey={limiting} onClose={() => setLimiting(null)} />}
      {revoking !== null && <RevokeDialog apiKey={revoking} onClose={() => setRevoking(null)} />}
    </Page>
  );
}

type ColumnsOptions = {
  /** The addresses of the keys' owners, by user id, as far as they are known. */
  emails: ReturnType<typeof useEmails>;
  onLimit: (key: AdminKey) => void;
  onRevoke: (key: AdminKey) => void;
};

const columnsOf = ({ emails, onLimit, onRevoke }: ColumnsOptions): readonly Column<AdminKey>[] => [
  {
    name: 'Key',
    sortBy: (key) => key.name.toLowerCase(),
    cell: (key) => (
      <>
        <span className="block truncate @min-[58rem]:max-w-40 font-medium" title={key.name}>
          {key.name}
        </span>
        <code className="font-mono text-xs text-faint">{key.key_preview}</code>
      </>
    ),
  },
  {
    name: 'Owner',
    cell: (key) => (
      <>
        <OrganizationName id={key.tenant_id} />
        <UserLink
          tenantId={key.tenant_id}
          id={key.user_id}
          email={emails.get(key.user_id)}
          // Tall and far enough from the link above to be hit with a finger.
          className="mt-1 text-xs leading-6 text-faint"
        />
      </>
    ),
  },
  {
    name: 'Type',
    sortBy: (key) => key.key_type,
    cell: (key) => (
      <span className="grid justify-items-start gap-1">
        <span className="capitalize">{key.key_type}</span>
        <ScopesBadge scopes={key.scopes} />
      </span>
    ),
  },
  {
    name: 'Restrictions',
    cell: (key) => {
      const limits = limitNames.filter((limit) => key.rate_limits[limit] !== null);
      return (
        <span className="flex flex-wrap gap-1">
          <RestrictionBadges
            apiKey={{ ...key, budget: null }}
            none={limits.length === 0 && <span className="text-faint">None</span>}
          />
          {limits.map((limit) => (
            <Badge key={limit} title="This key’s own rate limit">
              {limitLabels[limit]}: {formatCount(key.rate_limits[limit] ?? 0)}
            </Badge>
          ))}
        </span>
      );
    },
  },
  {
    name: 'Status',
    cell: (key) => <KeyStatus status={key.status} />,
  },
  {
    name: 'Last used',
    sortBy: (key) => key.last_used_at ?? '',
    cell: (key) => (
      <>
        <Time value={key.last_used_at} relative none="Never" />
        <span className="block text-xs text-faint">
          created <Time value={key.created_at} relative />
        </span>
      </>
    ),
  },
  {
    name: '',
    end: true,
    cell: (key) => {
      const links = [
        { label: 'Calls', icon: 'pulse', href: callsOfKey(key) },
        { label: 'Audit events', icon: 'log', href: `/operator/audit?target=${key.id}` },
      ] as const;
      return (
        <Menu
          trigger={<IconButton icon="more" label={`Actions for ${distinctName(key)}`} />}
          items={
            key.status === 'revoked'
              ? links
              : [
                  ...links,
                  { label: 'Rate limits', icon: 'gauge', onSelect: () => onLimit(key) },
                  'line',
                  { label: 'Revoke', icon: 'stop', danger: true, onSelect: () => onRevoke(key) },
                ]
          }
        />
      );
    },
  },
];

/** Keys of one organization, and of several, can have the same name. */
const distinctName = ({ name, key_preview }: AdminKey): string => `${name} (${key_preview})`;

function RevokeDialog({ apiKey, onClose }: { apiKey: AdminKey; onClose: () => void }) {
  const toast = useToast();
  const revoke = useAction({
    stale: ['/admin/keys'],
    onSuccess: () =>
      toast.say(
        <>
          <bdi>{apiKey.name}</bdi> was revoked.
        </>,
      ),
    onDone: onClose,
  });
  return (
    <ConfirmDialog
      title={
        <>
          Revoke <bdi>{apiKey.name}</bdi> ({apiKey.key_preview})?
        </>
      }
      description="Every call with it is refused from now on. This cannot be undone."
      act="Revoke key"
      onAct={() => revoke.run({ method: 'POST', path: `/admin/keys/${apiKey.id}/revoke` })}
      onClose={onClose}
      pending={revoke.pending}
      error={revoke.error}
    />
  );
}
