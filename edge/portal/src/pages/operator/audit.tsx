import { auditEventTypes } from '#shared/audit-outbox/event-types.ts';
import { useEmails } from '../../api/use-emails.ts';
import { useSearchParameter } from '../../router/router.ts';
import { Select } from '../../ui/field.tsx';
import { Page } from '../../ui/page.tsx';
import { AuditList, Name } from '../organization/audit-list.tsx';
import { ChainCheck, platformChain } from './chain-check.tsx';
import { useOrganizationName, useOrganizations } from './organization-name.tsx';

const types = auditEventTypes.toSorted();

export function OperatorAudit() {
  const [chain, setChain] = useSearchParameter('chain', '');
  const chosen = chain === platformChain ? '' : chain;
  const organizations = useOrganizations();
  const chosenName = useOrganizationName(chosen);
  const names = new Map(organizations.data?.data.map(({ id, name }) => [id, name]));
  const chains = (organizations.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }));
  const isPart = (organizations.data?.pagination.total_pages ?? 1) > 1;
  const isListed = chosen === '' || chains.some(({ value }) => value === chosen);
  return (
    <Page title="Platform audit" description="The events of all organizations and of operators.">
      <ChainCheck />
      <AuditList
        path="/admin/audit-events"
        types={types}
        names={names}
        tenantId={chain}
        usePeople={useEmails}
        showOrganization={(id) => <OrganizationOfEvent id={id} />}
      >
        <Select
          aria-label="Chain"
          value={chain}
          onChange={setChain}
          className="w-56"
          choices={[
            { value: '', label: 'All chains' },
            { value: platformChain, label: "The platform's own" },
            ...chains,
            ...(isListed ? [] : [{ value: chain, label: chosenName ?? chain }]),
            ...(isPart ? [{ value: 'others', label: 'Others: “Show events” on their pages', disabled: true }] : []),
          ]}
        />
      </AuditList>
    </Page>
  );
}

function OrganizationOfEvent({ id }: { id: string }) {
  return <Name id={id} name={useOrganizationName(id)} />;
}
