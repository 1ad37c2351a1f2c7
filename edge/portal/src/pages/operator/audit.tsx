import { organizationEventTypes, platformEventTypes } from '#shared/audit-outbox/event-types.ts';
import { useGet } from '../../api/hooks.ts';
import type { List, Member } from '../../api/types.ts';
import { Page } from '../../ui/page.tsx';
import { AuditList } from '../organization/audit-list.tsx';
import { ChainCheck } from './chain-check.tsx';
import { useOrganizations } from './organization-name.tsx';

const types = [...organizationEventTypes, ...platformEventTypes].sort();

export function OperatorAudit() {
  const users = useGet<List<Member>>('/admin/users', { limit: 100 });
  const organizations = useOrganizations();
  const names = new Map([
    ...(users.data?.data ?? []).map(({ id, email }) => [id, email] as const),
    ...(organizations.data?.data ?? []).map(({ id, name }) => [id, name] as const),
  ]);
  return (
    <Page title="Platform audit" description="The events of all organizations, and of operators.">
      <ChainCheck />
      <AuditList path="/admin/audit-events" types={types} names={names} />
    </Page>
  );
}
