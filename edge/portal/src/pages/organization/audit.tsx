import { Page } from '../../ui/page.tsx';
import { AuditList } from './audit-list.tsx';

export function Audit() {
  return (
    <Page
      title="Audit log"
      description="Every change in your organization: hash-chained, never changed, never removed."
    >
      <AuditList path="/audit-events" />
    </Page>
  );
}
