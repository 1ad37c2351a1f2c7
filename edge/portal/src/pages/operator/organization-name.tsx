import { useGet } from '../../api/hooks.ts';
import type { List } from '../../api/types.ts';
import { Link } from '../../router/link.tsx';
import { ShortId } from '../../ui/short-id.tsx';
import type { AdminOrganization } from './types.ts';

/** The newest organizations, read once for all rows of a table that name theirs. */
export const useOrganizations = () => useGet<List<AdminOrganization>>('/admin/organizations', { limit: 100 });

/** An organization's name, once it is known; of one that is not among the newest, it is asked for alone. No id names none. */
export function useOrganizationName(id: string | null): string | undefined {
  const list = useOrganizations();
  const listed = list.data?.data.find((organization) => organization.id === id);
  const enabled = id !== null && !list.isPending && listed === undefined;
  const other = useGet<AdminOrganization>(`/admin/organizations/${id}`, undefined, { keepPrevious: false, enabled });
  return (listed ?? other.data)?.name;
}

/** An organization by its name, which leads to it; by its id until the name is known. */
export function OrganizationName({ id }: { id: string }) {
  const name = useOrganizationName(id);
  return (
    <Link
      href={`/operator/organizations/${id}`}
      className="line-clamp-2 max-w-48 min-w-24 wrap-anywhere hover:underline"
      title={name ?? id}
    >
      {name ?? <ShortId id={id} />}
    </Link>
  );
}
