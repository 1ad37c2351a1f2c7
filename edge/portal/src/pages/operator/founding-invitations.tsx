import { useState } from 'react';
import { useGet } from '../../api/hooks.ts';
import type { Invitation, List } from '../../api/types.ts';
import { Card } from '../../ui/card.tsx';
import { PagedTable } from '../../ui/paged-table.tsx';
import { invitationColumns } from '../organization/invitations.tsx';

const path = '/admin/invitations';
const columns = invitationColumns(path);

/** Pending invitations whose organizations do not exist yet, if there are any. The page in the address is that of the organizations. */
export function FoundingInvitations() {
  const [page, setPage] = useState(1);
  const { data } = useGet<List<Invitation>>(path, { status: 'pending', page, limit: 20 });
  if (data === undefined || data.pagination.total === 0) return null;
  return (
    <Card flush title="Pending invitations" description="Each creates an organization when it is accepted.">
      <PagedTable
        label="Pending invitations"
        wordy
        list={data}
        onPage={setPage}
        columns={columns}
        rowKey={(invitation) => invitation.id}
      />
    </Card>
  );
}
