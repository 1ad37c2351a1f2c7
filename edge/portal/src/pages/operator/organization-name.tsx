import { useGet } from '../../api/hooks.ts';
import type { List } from '../../api/types.ts';
import { Link } from '../../router/link.tsx';
import { ShortId } from '../../ui/short-id.tsx';
import type { AdminOrganization } from './types.ts';

/** The newest organizations, read once for all table rows that show an organization's name. */
export const useOrganizations = () => useGet<List<AdminOrganization>>('/admin/organizations', { limit: 100 });

/** The name of an organization, once known. If it is not among the newest, it is read by itself. An empty id has no name. */
export function useOrganizationName(id: string): string | undefined {
  const list = useOrganizations();
  const listed = list.data?.data.find((organization) => organization.id === id);
  const enabled = id !== '' && !list.isPending && listed === undefined;
  const path = `/admin/organizations/${encodeURIComponent(id)}`;
  const other = useGet<AdminOrganization>(path, undefined, { keepPrevious: false, enabled });
  return (listed ?? other.data)?.name;
}

/** A link to an organization: its name, or its id until the name is known, in the same room, so that a list does not move. */
export function OrganizationName({ id }: { id: string }) {
  const name = useOrganizationName(id);
  return (
    <Link
      href={`/operator/organizations/${id}`}
      className="block w-44 max-w-full truncate hover:underline"
      title={name ?? id}
    >
      {name ?? <ShortId id={id} />}
    </Link>
  );
}
