import { organizationEventTypes, platformEventTypes } from '#shared/audit-outbox/event-types.ts';
import { useGet } from '../../api/hooks.ts';
import type { List, Member } from '../../api/types.ts';
import { useSearchParameter } from '../../router/router.ts';
import { Select } from '../../ui/field.tsx';
import { Page } from '../../ui/page.tsx';
import { AuditList } from '../organization/audit-list.tsx';
import { ChainCheck, platformChain } from './chain-check.tsx';
import { useOrganizations } from './organization-name.tsx';

const types = [...organizationEventTypes, ...platformEventTypes].sort();

export function OperatorAudit() {
  const users = useGet<List<Member>>('/admin/users', { limit: 100 });
  const organizations = useOrganizations();
  const [chain, setChain] = useSearchParameter('chain', '');
  const names = new Map([
    ...(users.data?.data ?? []).map(({ id, email }) => [id, email] as const),
    ...(organizations.data?.data ?? []).map(({ id, name }) => [id, name] as const),
  ]);
  const chains = (organizations.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }));
  const isListed = chain === '' || chain === platformChain || chains.some(({ value }) => value === chain);
  return (
    <Page title="Platform audit" description="The events of all organizations, and of operators.">
      <ChainCheck />
      <AuditList path="/admin/audit-events" types={types} names={names} tenantId={chain}>
        <Select
          aria-label="Chain"
          value={chain}
          onChange={setChain}
          className="w-56"
          choices={[
            { value: '', label: 'All chains' },
            { value: platformChain, label: "The platform's own" },
            ...chains,
            ...(isListed ? [] : [{ value: chain, label: chain }]),
          ]}
        />
      </AuditList>
    </Page>
  );
}
