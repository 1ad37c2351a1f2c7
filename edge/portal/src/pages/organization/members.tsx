import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Query, Role } from '../../api/client.ts';
import { useAction, useClaims, useGet, useMayChange } from '../../api/hooks.ts';
import type { List, Member } from '../../api/types.ts';
import { usePageParameter } from '../../router/router.ts';
import { Badge, Status } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Email } from '../../ui/email.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Select } from '../../ui/field.tsx';
import { PagedTable } from '../../ui/paged-table.tsx';
import { SearchBox, useSearch } from '../../ui/search-box.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';

type Changes = Partial<Pick<Member, 'role' | 'is_active'>>;
type Question = { title: string; description: string; act: string; changes: Changes };

export function Members() {
  const claims = useClaims();
  const mayChange = useMayChange();
  const [page, setPage] = usePageParameter();
  const search = useSearch();
  const query = { page, limit: 20, search };
  const members = useGet<List<Member>>('/members', query);
  const { update, pending } = useUpdateMember(query, members.data);
  const [asked, setAsked] = useState<{ member: Member; question: Question } | null>(null);
  const columns: readonly Column<Member>[] = [
    {
      name: 'Member',
      sortBy: (member) => member.email,
      cell: (member) => (
        <div className="min-w-0">
          <span className="flex items-center gap-2 font-medium wrap-anywhere">
            <bdi>{[member.first_name, member.last_name].filter(Boolean).join(' ') || member.email}</bdi>
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
          disabled={!mayChange(member)}
          // Choosing in a list is not a decision yet: an arrow key chooses as well.
          onChange={(chosen) => {
            const isOwn = member.id === claims.userId;
            setAsked({ member, question: changeOfRole(member, chosen as Role, isOwn) });
          }}
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
          aria-label={`${member.is_active ? 'Deactivate' : 'Reactivate'} ${member.email}`}
          disabled={member.id === claims.userId || !mayChange(member) || (pending && !member.is_active)}
          onClick={() =>
            member.is_active
              ? setAsked({ member, question: deactivation(member) })
              : update(member, { is_active: true })
          }
        >
          {member.is_active ? 'Deactivate' : 'Reactivate'}
        </Button>
      ),
    },
  ];
  return (
    <>
      <SearchBox label="Search members" />
      <Card flush>
        {asked !== null && (
          <ConfirmDialog
            {...asked.question}
            // One change at a time: this one waits for the answer about another.
            pending={pending}
            onAct={() => {
              update(asked.member, asked.question.changes);
              setAsked(null);
            }}
            onClose={() => setAsked(null)}
          />
        )}
        <Loaded of={members}>
          {(list) => (
            <PagedTable
              label="Members"
              list={list}
              onPage={setPage}
              columns={columns}
              rowKey={(member) => member.id}
              empty={<EmptyState icon="search" title="No members match" />}
            />
          )}
        </Loaded>
      </Card>
    </>
  );
}

const deactivation = (member: Member): Question => ({
  title: `Deactivate ${member.email}?`,
  description: 'Their sessions end, and every call with their keys is refused until you reactivate them.',
  act: 'Deactivate',
  changes: { is_active: false },
});

const roleNames: Readonly<Record<Role, string>> = { member: 'a member', admin: 'an admin', owner: 'an owner' };
const rolePowers: Readonly<Record<Role, string>> = {
  member: 'A member has their own keys and sees only their own usage.',
  admin: 'An admin invites and changes members, and sees billing and everyone’s usage.',
  owner: 'An owner can do everything in the organization, including adding and removing owners.',
};
const changeOfRole = (member: Member, role: Role, isOwn: boolean): Question => ({
  title: `Make ${isOwn ? 'yourself' : member.email} ${roleNames[role]}?`,
  description: `${rolePowers[role]}${isOwn ? ' You cannot undo this yourself.' : ''}`,
  act: 'Change role',
  changes: { role },
});

/** Changes a member: shown at once, and undone if the API refuses (the last owner stays). */
function useUpdateMember(query: Query, list: List<Member> | undefined) {
  const queries = useQueryClient();
  const toast = useToast();
  const change = useAction<Member>({
    stale: ['/members'],
    onSuccess: (member) => toast.say(`${member.email} was updated.`),
    onError: () => void queries.invalidateQueries({ queryKey: ['/members'] }),
    complains: true,
  });
  const update = (member: Member, changes: Changes) => {
    if (list !== undefined) {
      const data = list.data.map((one) => (one.id === member.id ? { ...one, ...changes } : one));
      queries.setQueryData(['/members', query], { ...list, data });
    }
    change.run({ method: 'PATCH', path: `/members/${member.id}`, body: changes });
  };
  return { update, pending: change.pending };
}
