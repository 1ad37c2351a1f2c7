import { Role } from './rpc/caller.ts';

/*
 * What Auth writes into session tokens and the edge expects there (decisions.md, Auth). The issuer of both tokens is PUBLIC_URL. They
 * differ in type (RFC 9068 section 2.1, RFC 8725 section 3.11) and audience, so that neither passes for the other.
 */

export const tokenAlgorithm = 'EdDSA';

export const accessToken = { type: 'at+jwt', audience: 'model-gateway', lifetimeMs: 30 * 60_000 } as const;
export const refreshToken = { type: 'rt+jwt', audience: 'model-gateway/refresh', lifetimeMs: 7 * 86_400_000 } as const;

type RoleName = 'member' | 'admin' | 'owner';

const namesByRole: ReadonlyMap<Role, RoleName> = new Map([
  [Role.MEMBER, 'member'],
  [Role.ADMIN, 'admin'],
  [Role.OWNER, 'owner'],
]);
const rolesByName: ReadonlyMap<string, Role> = new Map([...namesByRole].map(([role, name]) => [name, role]));

/** The public name of a role. */
export const roleName = (role: Role): RoleName => namesByRole.get(role) ?? 'member';

/** The role with a public name; undefined when there is none. */
export const roleNamed = (name: unknown): Role | undefined =>
  typeof name === 'string' ? rolesByName.get(name) : undefined;
