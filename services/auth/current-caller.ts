import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { type Caller, CallerKind, Role } from '#shared/rpc/caller.ts';
import type { AuditActor } from './audit.ts';
import { findUser, lockUser } from './db/user.repository.ts';

/**
 * The caller's current role and status, read under the locks of a change, since the edge judged them earlier: somebody removed meanwhile
 * has no role and is no operator. A caller without a session is returned unchanged.
 */
export async function currentCaller(em: SqlEntityManager, caller: Caller): Promise<Caller> {
  if (caller.kind !== CallerKind.SESSION) return caller;
  const user = await findUser(em, caller.userId);
  if (user === null || !user.isActive) return { ...caller, role: Role.UNSPECIFIED, operator: false };
  return { ...caller, role: user.role, operator: user.operator };
}

/** Who makes a change. `judge` throws when they may not; `actor` is how the audit trail names them; `signal` aborts once they have left. */
export type Author = { caller: Caller; judge(caller: Caller): void; actor: AuditActor; signal: AbortSignal };

/**
 * Checks a caller again in the transaction of their change: a removal or demotion either waits until the change is done, or came first, and
 * the change is refused.
 */
export async function judgeAgain(
  em: SqlEntityManager,
  { caller, judge }: Pick<Author, 'caller' | 'judge'>,
): Promise<void> {
  if (caller.kind === CallerKind.SESSION) await lockUser(em, { id: caller.userId });
  judge(await currentCaller(em, caller));
}
