import { organizationEventTypes } from '#shared/audit-outbox/event-types.ts';
import { useWholeList } from '../../api/hooks.ts';
import type { Member } from '../../api/types.ts';
import { Page } from '../../ui/page.tsx';
import { AuditList } from './audit-list.tsx';

export function Audit() {
  const members = useWholeList<Member>('/members');
  const names = new Map((members.data ?? []).map(({ id, email }) => [id, email]));
  return (
    <Page title="Audit log" description="Every change in your organization: hash-chained, never edited, never removed.">
      <AuditList path="/audit-events" types={organizationEventTypes} usePeople={() => names} />
    </Page>
  );
}
