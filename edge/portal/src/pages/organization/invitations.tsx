import type { ReactNode } from 'react';
import { useAction } from '../../api/hooks.ts';
import type { Invitation } from '../../api/types.ts';
import { Status } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Email } from '../../ui/email.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';

const tones = { pending: 'warn', accepted: 'good', expired: 'neutral', withdrawn: 'neutral' } as const;

/** The columns of a list of invitations at `path`. */
export const invitationColumns = (path: string): readonly Column<Invitation>[] => [
  {
    name: 'Email',
    sortBy: (invitation) => invitation.email,
    cell: (invitation) => (
      <span className="font-medium">
        <Email address={invitation.email} />
      </span>
    ),
  },
  { name: 'Role', cell: (invitation) => <span className="capitalize">{invitation.role}</span> },
  {
    name: 'Status',
    cell: (invitation) => (
      <Status tone={tones[invitation.status]}>
        <span className="capitalize">{invitation.status}</span>
      </Status>
    ),
  },
  {
    name: 'Sent',
    sortBy: (invitation) => invitation.created_at,
    cell: (invitation) => <Time value={invitation.created_at} relative />,
  },
  {
    name: 'Expires',
    sortBy: (invitation) => invitation.expires_at,
    cell: ({ status, expires_at }) => <Time value={status === 'pending' || status === 'expired' ? expires_at : null} />,
  },
  { name: '', end: true, cell: (invitation) => <Withdraw invitation={invitation} path={path} /> },
];

/** The invitations at `path`; `action` is shown next to the `title`. */
export function Invitations({ path, title, action }: { path: string; title?: string; action?: ReactNode }) {
  return (
    <PagedCard<Invitation>
      label="Invitations"
      wordy
      title={title}
      action={action}
      path={path}
      columns={invitationColumns(path)}
      rowKey={(invitation) => invitation.id}
      empty={
        <EmptyState icon="mail" title="No invitations">
          An invitation is an email with a one-time link for setting a password.
        </EmptyState>
      }
    />
  );
}

function Withdraw({ invitation, path }: { invitation: Invitation; path: string }) {
  const toast = useToast();
  const withdraw = useAction({
    stale: [path],
    onSuccess: () => toast.say('Invitation withdrawn.'),
    complains: true,
  });
  if (invitation.status !== 'pending') return null;
  return (
    <Button
      size="small"
      aria-label={`Withdraw the invitation of ${invitation.email}`}
      pending={withdraw.pending}
      onClick={() => withdraw.run({ method: 'DELETE', path: `${path}/${invitation.id}` })}
    >
      Withdraw
    </Button>
  );
}
