import type { HandlerContext } from '@connectrpc/connect';
import { type Caller, callerOf, operatorCaller, Role, requireRole } from '#shared/rpc/caller.ts';

type Context = Pick<HandlerContext, 'values'>;

/** Somebody of an organization, by key or session. */
export function memberCaller(context: Context): Caller {
  const caller = callerOf(context);
  requireRole(caller, Role.MEMBER);
  return caller;
}

/** The organization whose money is read: the one that an operator names, or that of an admin or owner. */
export function readableTenant(context: Context, tenantId: string): string {
  if (tenantId === '') return adminCaller(context).tenantId;
  operatorCaller(context);
  return tenantId.toLowerCase();
}

/** An admin or owner, who may see money (service.md, Endpoints). */
export function adminCaller(context: Context): Caller {
  const caller = callerOf(context);
  requireRole(caller, Role.ADMIN);
  return caller;
}
