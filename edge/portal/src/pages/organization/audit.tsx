import { organizationEventTypes } from '#shared/audit-outbox/event-types.ts';
import { useEmails } from '../../api/use-emails.ts';
import { Page } from '../../ui/page.tsx';
import { AuditList } from './audit-list.tsx';

export function Audit() {
  return (
    <Page title="Audit log" description="Every change in your organization: hash-chained, never edited, never removed.">
      <AuditList path="/audit-events" types={organizationEventTypes} usePeople={useMembers} />
    </Page>
  );
}

const useMembers = (ids: readonly string[]) => useEmails(ids, '/members');
