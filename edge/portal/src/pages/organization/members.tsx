import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Role } from '../../api/client.ts';
import { useAction, useClaims, useGet } from '../../api/hooks.ts';
import type { List, Member } from '../../api/types.ts';
import { usePageParameter } from '../../router/router.ts';
import { Badge, Status } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Email } from '../../ui/email.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Select } from '../../ui/field.tsx';
import { Pager } from '../../ui/pagination.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';

export function Members() {
  const claims = useClaims();
  const [page, setPage] = usePageParameter();
  const query = { page, limit: 20 };
  const members = useGet<List<Member>>('/members', query);
  const update = useUpdateMember(query, members.data);
  const [leaving, setLeaving] = useState<Member | null>(null);
  const columns: readonly Column<Member>[] = [
    {
      name: 'Member',
      sortBy: (member) => member.email,
      cell: (member) => (
        <div className="min-w-0">
          <span className="flex items-center gap-2 font-medium wrap-anywhere">
            {[member.first_name, member.last_name].filter(Boolean).join(' ') || member.email}
            {member.id === claims.userId && <Badge>You</Badge>}
          </span>
          <span className="text-xs text-faint">
            <Email address={member.email} />
          </span>
        </div>
      ),
    },
    {
      name: 'Role',
      sortBy: (member) => member.role,
      cell: (member) => (
        <Select
          aria-label={`Role of ${member.email}`}
          value={member.role}
          // Only an owner makes or unmakes owners.
          disabled={member.role === 'owner' && claims.role !== 'owner'}
          onChange={(role) => update(member, { role: role as Role })}
          choices={[
            { value: 'member', label: 'Member' },
            { value: 'admin', label: 'Admin' },
            { value: 'owner', label: 'Owner', disabled: claims.role !== 'owner' },
          ]}
        />
      ),
    },
    {
      name: 'Status',
      cell: (member) => (
        <Status tone={member.is_active ? 'good' : 'neutral'}>{member.is_active ? 'Active' : 'Deactivated'}</Status>
      ),
    },
    {
      name: 'Joined',
      sortBy: (member) => member.created_at,
      cell: (member) => <Time value={member.created_at} relative />,
    },
    {
      name: '',
      end: true,
      cell: (member) => (
        <Button
          size="small"
          disabled={member.id === claims.userId}
          onClick={() => (member.is_active ? setLeaving(member) : update(member, { is_active: true }))}
        >
          {member.is_active ? 'Deactivate' : 'Reactivate'}
        </Button>
      ),
    },
  ];
  return (
    <Card flush>
      {leaving !== null && (
        <ConfirmDialog
          title={`Deactivate ${leaving.email}?`}
          description="Their sessions end, and every call with their keys is refused until you reactivate them."
          act="Deactivate"
          onAct={() => {
            update(leaving, { is_active: false });
            setLeaving(null);
          }}
          onClose={() => setLeaving(null)}
        />
      )}
      <Loaded of={members}>
        {(list) => (
          <>
            <Table
              label="Members"
              rows={list.data}
              columns={columns}
              rowKey={(member) => member.id}
              pagination={list.pagination}
            />
            <Pager pagination={list.pagination} onPage={setPage} />
          </>
        )}
      </Loaded>
    </Card>
  );
}

/** Changes a member: shown at once, taken back when the API refuses (the last owner stays). */
function useUpdateMember(query: Record<string, number>, list: List<Member> | undefined) {
  const queries = useQueryClient();
  const toast = useToast();
  const change = useAction<Member>({
    stale: ['/members'],
    onSuccess: (member) => toast.say(`${member.email} is saved.`),
    onError: (error) => {
      toast.complain(error);
      void queries.invalidateQueries({ queryKey: ['/members'] });
    },
  });
  return (member: Member, changes: Partial<Pick<Member, 'role' | 'is_active'>>) => {
    if (change.pending) return;
    if (list !== undefined) {
      const data = list.data.map((one) => (one.id === member.id ? { ...one, ...changes } : one));
      queries.setQueryData(['/members', query], { ...list, data });
    }
    change.run({ method: 'PATCH', path: `/members/${member.id}`, body: changes });
  };
}
