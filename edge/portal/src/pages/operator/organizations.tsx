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
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import { ShortId } from '../../ui/short-id.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';
import { passItOn } from '../organization/invite.tsx';
import { FoundingInvitations } from './founding-invitations.tsx';
import type { AdminOrganization } from './types.ts';

export function Organizations() {
  const search = useSearch();
  const [status, setStatus] = useSearchParameter('status', '');
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
        <SearchBox label="Search organizations" />
        <Select
          aria-label="Status"
          value={status}
          onChange={setStatus}
          choices={[
            { value: '', label: 'All statuses' },
            { value: 'active', label: 'Active' },
            { value: 'suspended', label: 'Suspended' },
          ]}
        />
      </div>
      <PagedCard<AdminOrganization>
        label="Organizations"
        path="/admin/organizations"
        query={{ search, status }}
        columns={columns}
        rowKey={(row) => row.id}
        empty={<EmptyState icon="people" title="No organizations match" />}
      />
      <FoundingInvitations />
      {creating && <CreateOrganization onClose={() => setCreating(false)} />}
    </Page>
  );
}

const columns: readonly Column<AdminOrganization>[] = [
  {
    name: 'Organization',
    sortBy: (row) => row.name.toLowerCase(),
    cell: (row) => (
      <Link href={`/operator/organizations/${row.id}`} className="font-medium wrap-anywhere hover:underline">
        <bdi>{row.name}</bdi>
      </Link>
    ),
  },
  { name: 'Id', cell: (row) => <ShortId id={row.id} /> },
  {
    name: 'Status',
    cell: (row) =>
      row.status === 'suspended' ? <Status tone="danger">Suspended</Status> : <Status tone="good">Active</Status>,
  },
  { name: 'Created', sortBy: (row) => row.created_at, cell: (row) => <Time value={row.created_at} /> },
];

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
