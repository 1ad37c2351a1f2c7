import { useState } from 'react';
import { useAction, useGet } from '../../api/hooks.ts';
import type { List } from '../../api/types.ts';
import { formatCount } from '../../format/number.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { TextField } from '../../ui/field.tsx';
import { useToast } from '../../ui/toast.tsx';
import { OrganizationName } from './organization-name.tsx';
import type { AdminModel, AdminOrganization } from './types.ts';

/** How many organizations a search offers at once. */
const offeredMax = 5;
/** How many more of those that have a model are listed at once: there may be hundreds, and their names are read one by one. */
const listedAtOnce = 20;

/**
 * The organizations that may use a private model. Grants are added by searching for an organization's name, and withdrawn there or in the
 * list.
 */
export function Grants({ model }: { model: AdminModel }) {
  const toast = useToast();
  const [search, setSearch] = useState('');
  const [listed, setListed] = useState(listedAtOnce);
  const found = useGet<List<AdminOrganization>>(
    '/admin/organizations',
    { search: search.trim(), limit: offeredMax },
    { enabled: search.trim() !== '' },
  );
  const grant = useAction({
    stale: ['/admin/models'],
    onSuccess: () => {
      setSearch('');
      toast.say('Model granted.');
    },
    complains: true,
  });
  const revoke = useAction({
    stale: ['/admin/models'],
    onSuccess: () => toast.say('Grant withdrawn.'),
    complains: true,
  });
  const path = `/admin/grants?model=${encodeURIComponent(model.id)}&tenant_id=`;
  const offered = search.trim() === '' ? [] : (found.data?.data ?? []);
  const more = Math.min(model.granted_tenant_ids.length - listed, listedAtOnce);
  const withdraw = (id: string, label: { 'aria-label': string } | { 'aria-describedby': string }) => (
    <Button
      size="small"
      {...label}
      pending={revoke.pending}
      onClick={() => revoke.run({ method: 'DELETE', path: path + encodeURIComponent(id) })}
    >
      Withdraw
    </Button>
  );
  return (
    <Card title="Grants" description="Only these organizations can see and call this private model.">
      <ul aria-label="Granted to" className="mb-4 grid gap-2 text-sm">
        {model.granted_tenant_ids.slice(0, listed).map((id) => (
          <li key={id} className="flex items-center justify-between gap-3">
            <span id={id} className="min-w-0">
              <OrganizationName id={id} />
            </span>
            {withdraw(id, { 'aria-describedby': id })}
          </li>
        ))}
        {more > 0 && (
          <li className="flex items-center justify-between gap-3 text-faint">
            {formatCount(model.granted_tenant_ids.length - listed)} more, which the search finds as well
            <Button size="small" onClick={() => setListed(listed + listedAtOnce)}>
              Show {more}
            </Button>
          </li>
        )}
        {model.granted_tenant_ids.length === 0 && <li className="text-faint">No organization has it yet.</li>}
      </ul>
      <div className="grid gap-3 sm:max-w-lg">
        <TextField
          label="Grant to an organization"
          type="search"
          placeholder="Its name"
          spellCheck={false}
          value={search}
          onChange={setSearch}
        />
        <ul aria-label="Organizations found" aria-live="polite" className="grid gap-2 text-sm">
          {offered.map(({ id, name }) => (
            <li key={id} className="flex items-center justify-between gap-3">
              <span className="min-w-0 wrap-anywhere">{name}</span>
              {model.granted_tenant_ids.includes(id) ? (
                withdraw(id, { 'aria-label': `Withdraw from ${name}` })
              ) : (
                <Button
                  size="small"
                  aria-label={`Grant to ${name}`}
                  pending={grant.pending}
                  onClick={() =>
                    grant.run({ method: 'POST', path: '/admin/grants', body: { model: model.id, tenant_id: id } })
                  }
                >
                  Grant
                </Button>
              )}
            </li>
          ))}
          {search.trim() !== '' && found.isFetched && !found.isFetching && offered.length === 0 && (
            <li className="text-faint">No organization matches.</li>
          )}
        </ul>
      </div>
    </Card>
  );
}
