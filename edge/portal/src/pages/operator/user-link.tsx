import { Link } from '../../router/link.tsx';
import { ShortId } from '../../ui/short-id.tsx';

type UserLinkProps = { tenantId: string; id: string; email: string | undefined; className?: string };

/** A link to a user among the members of their organization: their address, or their id until the address is known. */
export function UserLink({ tenantId, id, email, className = '' }: UserLinkProps) {
  return (
    <Link
      href={`/operator/organizations/${tenantId}?tab=members&search=${id}`}
      className={`block w-44 max-w-full truncate hover:underline ${className}`}
      title={email ?? id}
    >
      {email ?? <ShortId id={id} />}
    </Link>
  );
}
