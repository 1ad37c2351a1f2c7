import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { type Caller, CallerKind, Role, requireRole } from '#shared/rpc/caller.ts';

/** Whose usage is counted: one user's, or the whole organization's when `userId` is null. */
export type Subject = { tenantId: string; userId: string | null };

/**
 * Whose usage a caller may ask for: their own or, with the tenant's scope, everybody's (service.md, Management endpoints).
 *
 * @throws GatewayError INSUFFICIENT_ROLE when a member asks for the tenant's.
 */
export function subjectOf(caller: Caller, scope: UsageScope): Subject {
  requirePerson(caller);
  if (scope !== UsageScope.TENANT) return { tenantId: caller.tenantId, userId: caller.userId };
  requireRole(caller, Role.ADMIN);
  return { tenantId: caller.tenantId, userId: null };
}

/** Refuses callers that are neither a key nor a session: a service has no usage of its own. */
export function requirePerson(caller: Caller): void {
  const isPerson = caller.kind === CallerKind.API_KEY || caller.kind === CallerKind.SESSION;
  if (isPerson && caller.tenantId !== '' && caller.userId !== '') return;
  throw gatewayError(ErrorReason.INSUFFICIENT_ROLE, 'Usage is only available to members of an organization.');
}
