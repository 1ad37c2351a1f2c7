import { useGet } from '../../api/hooks.ts';
import { Link } from '../../router/link.tsx';
import { ShortId } from './paged-card.tsx';
import type { AdminOrganization } from './types.ts';

/** An organization by its name, which leads to it; by its id until the name is known. */
export function OrganizationName({ id }: { id: string }) {
  const organization = useGet<AdminOrganization>(`/admin/organizations/${id}`, undefined, { keepPrevious: false });
  const name = organization.data?.name;
  return (
    <Link href={`/operator/organizations/${id}`} className="block max-w-48 truncate hover:underline" title={name ?? id}>
      {name ?? <ShortId id={id} />}
    </Link>
  );
}
