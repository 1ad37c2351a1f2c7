import { Page } from '../../ui/page.tsx';
import { AuditList } from '../organization/audit-list.tsx';

export function OperatorAudit() {
  return (
    <Page title="Platform audit" description="The events of all organizations, and of operators.">
      <AuditList path="/admin/audit-events" />
    </Page>
  );
}
