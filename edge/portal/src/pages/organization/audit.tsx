import { useGet } from '../../api/hooks.ts';
import type { List, Member } from '../../api/types.ts';
import { Page } from '../../ui/page.tsx';
import { AuditList } from './audit-list.tsx';

export function Audit() {
  const members = useGet<List<Member>>('/members', { limit: 100 });
  const names = new Map((members.data?.data ?? []).map(({ id, email }) => [id, email]));
  return (
    <Page
      title="Audit log"
      description="Every change in your organization: hash-chained, never changed, never removed."
    >
      <AuditList path="/audit-events" names={names} />
    </Page>
  );
}
