import { useState } from 'react';
import { useAction, useClaims } from '../../api/hooks.ts';
import type { Member } from '../../api/types.ts';
import { Badge, Status } from '../../ui/badge.tsx';
import { IconButton } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Email } from '../../ui/email.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Menu } from '../../ui/menu.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';
import { callsMeeting } from './calls-filtered.ts';
import { EmailDialog } from './email-dialog.tsx';
import type { AdminUser } from './types.ts';

type Changes = Partial<Pick<AdminUser, 'is_active' | 'operator'>>;
type Question = { title: string; description: string; act: string; changes: Changes };
type Asked = { user: AdminUser; question: Question };

/** An organization's members. An operator can change their addresses, deactivate and reactivate them, and make them operators. */
export function OrganizationMembers({ tenantId }: { tenantId: string }) {
  const claims = useClaims();
  const search = useSearch();
  const [readdressed, setReaddressed] = useState<AdminUser | null>(null);
  const [asked, setAsked] = useState<Asked | null>(null);
  const ask = (user: AdminUser, question: Question) => setAsked({ user, question });
  return (
    <>
      <SearchBox label="Search members" />
      <PagedCard<AdminUser>
        label="Members"
        path="/admin/users"
        query={{ tenant_id: tenantId, search }}
        columns={columnsOf(claims.userId, ask, setReaddressed)}
        rowKey={(user) => user.id}
        empty={
          search === '' ? (
            <EmptyState icon="people" title="No members yet">
              The owner’s invitation is waiting in the mail outbox or has been sent.
            </EmptyState>
          ) : (
            <EmptyState icon="search" title="No members match" />
          )
        }
      />
      {readdressed !== null && <EmailDialog user={readdressed} onClose={() => setReaddressed(null)} />}
      {asked !== null && <ChangeDialog {...asked} onClose={() => setAsked(null)} />}
    </>
  );
}

/** Each question has an action of its own: one whose answer is late neither closes nor holds up the next. */
function ChangeDialog({ user, question, onClose }: Asked & { onClose: () => void }) {
  const toast = useToast();
  const { changes, ...asked } = question;
  const change = useAction<Member>({
    stale: ['/admin/users', '/admin/organizations', '/members'],
    onSuccess: ({ email }) => toast.say(`${email} was updated.`),
    onDone: onClose,
  });
  return (
    <ConfirmDialog
      {...asked}
      pending={change.pending}
      error={change.error}
      onAct={() => change.run({ method: 'PATCH', path: `/admin/users/${user.id}`, body: changes })}
      onClose={onClose}
    />
  );
}

const activity = (user: AdminUser): Question =>
  user.is_active
    ? {
        title: `Deactivate ${user.email}?`,
        description: 'Their sessions end, and every call with their keys is refused until they are reactivated.',
        act: 'Deactivate',
        changes: { is_active: false },
      }
    : {
        title: `Reactivate ${user.email}?`,
        description: 'They can sign in again, and their keys work again.',
        act: 'Reactivate',
        changes: { is_active: true },
      };

const power = (user: AdminUser): Question =>
  user.operator
    ? {
        title: `Remove ${user.email} as an operator?`,
        description: 'They remain a member of their organization.',
        act: 'Remove operator',
        changes: { operator: false },
      }
    : {
        title: `Make ${user.email} an operator?`,
        description:
          'They can then do everything on the platform: suspend organizations, give credit, retire models and make operators.',
        act: 'Make operator',
        changes: { operator: true },
      };

const columnsOf = (
  myId: string,
  ask: (user: AdminUser, question: Question) => void,
  readdress: (user: AdminUser) => void,
): readonly Column<AdminUser>[] => [
  {
    name: 'Member',
    sortBy: (user) => user.email,
    cell: (user) => (
      <>
        <span className="flex flex-wrap items-center gap-x-2 font-medium wrap-anywhere">
          <bdi>{[user.first_name, user.last_name].filter(Boolean).join(' ') || user.email}</bdi>
          {user.operator && <Badge tone="accent">Operator</Badge>}
        </span>
        <span className="flex flex-wrap items-center gap-x-2 text-xs text-faint">
          <Email address={user.email} />
          {!user.email_verified && <Badge tone="warn">Unverified</Badge>}
        </span>
      </>
    ),
  },
  { name: 'Role', sortBy: (user) => user.role, cell: (user) => <span className="capitalize">{user.role}</span> },
  {
    name: 'Status',
    cell: (user) => (
      <Status tone={user.is_active ? 'good' : 'neutral'}>{user.is_active ? 'Active' : 'Deactivated'}</Status>
    ),
  },
  {
    name: 'Last sign-in',
    sortBy: (user) => user.last_login_at ?? '',
    cell: (user) => <Time value={user.last_login_at} relative none="Never" />,
  },
  {
    name: '',
    end: true,
    cell: (user) => (
      <Menu
        trigger={<IconButton icon="more" label={`Actions for ${user.email}`} />}
        items={[
          { label: 'Keys', icon: 'key', href: `/operator/keys?user=${user.id}` },
          {
            label: 'Calls',
            icon: 'pulse',
            href: callsMeeting({ organization: user.tenant_id, user: user.id }),
          },
          { label: 'Audit events', icon: 'log', href: `/operator/audit?actor=${user.id}` },
          'line',
          { label: 'Change email', icon: 'mail', onSelect: () => readdress(user) },
          ...(user.id === myId
            ? []
            : ([
                { label: power(user).act, icon: 'shield', onSelect: () => ask(user, power(user)) },
                {
                  label: activity(user).act,
                  icon: 'people',
                  danger: user.is_active,
                  onSelect: () => ask(user, activity(user)),
                },
              ] as const)),
        ]}
      />
    ),
  },
];
