import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { Link } from '../../router/link.tsx';
import { useSearchParameter } from '../../router/router.ts';
import { Status } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { fieldError, Select, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { Money } from '../../ui/money.tsx';
import type { Tone } from '../../ui/notice.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import { ShortId } from '../../ui/short-id.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';
import { passItOn } from '../organization/invite.tsx';
import { FoundingInvitations } from './founding-invitations.tsx';
import type { ListedOrganization } from './types.ts';

export function Organizations() {
  const search = useSearch();
  const [status, setStatus] = useSearchParameter('status', '');
  const query = status === 'active' || status === 'suspended' ? { search, status } : { search, standing: status };
  const [creating, setCreating] = useState(false);
  return (
    <Page
      title="Organizations"
      description="Every organization on the platform."
      actions={
        <Button look="primary" icon="plus" onClick={() => setCreating(true)}>
          Create organization
        </Button>
      }
    >
      <div className="flex flex-wrap gap-2">
        <SearchBox label="Search organizations" placeholder="Name, id or invoice number" />
        <Select
          aria-label="Status"
          value={status}
          onChange={setStatus}
          choices={[
            { value: '', label: 'All statuses' },
            { value: 'active', label: 'Active' },
            { value: 'suspended', label: 'Suspended' },
            { value: 'spending', label: 'Most spend this month' },
            { value: 'low', label: 'Low on funds' },
            { value: 'exhausted', label: 'Out of funds' },
            { value: 'overdue', label: 'Overdue invoices' },
          ]}
        />
      </div>
      <PagedCard<ListedOrganization>
        label="Organizations"
        wordy
        path="/admin/organizations"
        query={query}
        columns={columns}
        rowKey={(row) => row.id}
        empty={<EmptyState icon="people" title="No organizations match" />}
      />
      <FoundingInvitations />
      {creating && <CreateOrganization onClose={() => setCreating(false)} />}
    </Page>
  );
}

const columns: readonly Column<ListedOrganization>[] = [
  {
    name: 'Organization',
    sortBy: (row) => row.name.toLowerCase(),
    cell: (row) => (
      <>
        <Link href={`/operator/organizations/${row.id}`} className="font-medium wrap-anywhere hover:underline">
          <bdi>{row.name}</bdi>
        </Link>
        <span className="flex flex-wrap gap-x-2 text-xs text-faint">
          <ShortId id={row.id} />
          <span>
            created <Time value={row.created_at} />
          </span>
        </span>
      </>
    ),
  },
  {
    name: 'Status',
    cell: (row) => (
      <span className="inline-grid">
        {conditions(row).map(([tone, text]) => (
          <Status key={text} tone={tone}>
            {text}
          </Status>
        ))}
      </span>
    ),
  },
  { name: 'Plan', sortBy: (row) => row.account?.plan.name ?? '', cell: (row) => row.account?.plan.name ?? '—' },
  { name: 'Spent this month', usd: (row) => row.account?.spent_usd ?? null },
  {
    name: 'Left',
    end: true,
    sortBy: (row) => row.account?.left_usd ?? Number.POSITIVE_INFINITY,
    cell: ({ account }) => (account === null ? '—' : <Left account={account} />),
  },
  { name: 'Unpaid', usd: (row) => row.account?.receivable_usd ?? null },
];

/** What an operator may have to act on. */
function conditions({ status, account }: ListedOrganization): readonly (readonly [Tone, string])[] {
  const all = [
    status === 'suspended' && (['danger', 'Suspended'] as const),
    account?.funds === 'exhausted' && (['danger', 'Out of funds'] as const),
    account?.funds === 'low' && (['warn', 'Low on funds'] as const),
    (account?.overdue_usd ?? 0) > 0 && (['danger', 'Overdue'] as const),
  ].filter((one) => one !== false);
  return all.length === 0 ? [['good', 'Active']] : all;
}

/** What can still be spent, and what of it is credit. */
function Left({ account }: { account: NonNullable<ListedOrganization['account']> }) {
  const { left_usd: left, credit_usd: credit } = account;
  return (
    <>
      {left === null ? 'No limit' : <Money usd={left} />}
      {credit !== 0 && credit !== left && (
        <span className="block text-xs text-faint">
          <Money usd={credit} /> credit
        </span>
      )}
    </>
  );
}

function CreateOrganization({ onClose }: { onClose: () => void }) {
  const toast = useToast();
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const create = useAction({
    stale: ['/admin/organizations', '/admin/invitations', '/admin/mail'],
    onSuccess: () => toast.say(`${email.trim()} was invited. ${passItOn}`),
    onDone: onClose,
  });
  const body = { ...(name.trim() === '' ? {} : { name: name.trim() }), owner_email: email.trim() };
  return (
    <Dialog open onClose={onClose} title="Create an organization" description="Its owner is invited by email.">
      <Form onSubmit={() => create.run({ method: 'POST', path: '/admin/organizations', body })}>
        <FormError error={create.error} />
        <TextField
          label="Name"
          autoFocus
          hint="Leave empty to let the owner name it when accepting."
          value={name}
          onChange={setName}
          error={fieldError(create.error, 'name')}
        />
        <TextField
          label="Owner's email"
          type="email"
          required
          value={email}
          onChange={setEmail}
          error={fieldError(create.error, 'owner_email')}
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" pending={create.pending}>
            Create and invite
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
