import { auditEventTypes } from '#shared/audit-outbox/event-types.ts';
import { useGet } from '../../api/hooks.ts';
import type { List, Member } from '../../api/types.ts';
import { useSearchParameter } from '../../router/router.ts';
import { Select } from '../../ui/field.tsx';
import { Page } from '../../ui/page.tsx';
import { AuditList, Name } from '../organization/audit-list.tsx';
import { ChainCheck, platformChain } from './chain-check.tsx';
import { useOrganizationName, useOrganizations } from './organization-name.tsx';

const types = auditEventTypes.toSorted();

export function OperatorAudit() {
  const [chain, setChain] = useSearchParameter('chain', '');
  const chosen = chain === '' || chain === platformChain ? null : chain;
  // A hundred of them, of the chosen organization if there is one; any other is read by itself.
  const users = useGet<List<Member>>('/admin/users', { limit: 100, tenant_id: chosen });
  const organizations = useOrganizations();
  const chosenName = useOrganizationName(chosen);
  const names = new Map([
    ...(users.data?.data ?? []).map(({ id, email }) => [id, email] as const),
    ...(organizations.data?.data ?? []).map(({ id, name }) => [id, name] as const),
  ]);
  const chains = (organizations.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }));
  const isPart = (organizations.data?.pagination.total_pages ?? 1) > 1;
  const isListed = chosen === null || chains.some(({ value }) => value === chosen);
  return (
    <Page title="Platform audit" description="The events of all organizations and of operators.">
      <ChainCheck />
      <AuditList
        path="/admin/audit-events"
        types={types}
        names={names}
        tenantId={chain}
        showPerson={users.isPending ? undefined : (id) => <PersonOfEvent id={id} />}
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

function PersonOfEvent({ id }: { id: string }) {
  const found = useGet<List<Member>>('/admin/users', { limit: 1, search: id }, { keepPrevious: false });
  return <Name id={id} name={found.data?.data[0]?.email} />;
}

function OrganizationOfEvent({ id }: { id: string }) {
  return <Name id={id} name={useOrganizationName(id)} />;
}
