import type { TenantBreakdown } from '../../api/types.ts';
import { formatCount } from '../../format/number.ts';
import { Email } from '../../ui/email.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { RequestsLink } from './requests-link.tsx';

type Row = TenantBreakdown['users'][number];

const columns: readonly Column<Row>[] = [
  {
    name: 'User',
    sortBy: (row) => row.email,
    cell: (row) => <Email address={row.email || row.user_id} />,
  },
  {
    name: 'Requests',
    end: true,
    sortBy: (row) => row.requests,
    cell: (row) => <RequestsLink count={row.requests} filter={{ user: row.user_id }} />,
  },
  { name: 'Tokens', end: true, sortBy: (row) => row.tokens, cell: (row) => formatCount(row.tokens) },
  { name: 'Cost', usd: (row) => row.cost_usd },
];

/** The organization's usage by user, for admins and owners. */
export function UserTable({ users }: { users: readonly Row[] }) {
  return (
    <Table
      label="Usage by user"
      rows={users}
      columns={columns}
      rowKey={(row) => row.user_id}
      empty={<EmptyState icon="people" title="No usage in this range" />}
    />
  );
}
