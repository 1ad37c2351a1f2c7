import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { type Caller, CallerKind, Role } from '#shared/rpc/caller.ts';
import { findUser } from './db/user.repository.ts';

/**
 * A caller as they are by now, behind the locks of a change, since the edge has judged them before: whoever was removed meanwhile has no
 * role and operates nothing. Who calls without a session stays as they are.
 */
export async function currentCaller(em: SqlEntityManager, caller: Caller): Promise<Caller> {
  if (caller.kind !== CallerKind.SESSION) return caller;
  const user = await findUser(em, caller.userId);
  if (user === null || !user.isActive) return { ...caller, role: Role.UNSPECIFIED, operator: false };
  return { ...caller, role: user.role, operator: user.operator };
}
