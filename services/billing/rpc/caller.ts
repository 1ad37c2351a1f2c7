import type { HandlerContext } from '@connectrpc/connect';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { type Caller, CallerKind, callerOf, Role, requireOperator, requireRole } from '#shared/rpc/caller.ts';

type Context = Pick<HandlerContext, 'values'>;

/** Somebody of an organization, by key or session. */
export function memberCaller(context: Context): Caller {
  const caller = callerOf(context);
  requireRole(caller, Role.MEMBER);
  return caller;
}

/** An admin or owner: money is theirs to see (service.md, Endpoints). */
export function adminCaller(context: Context): Caller {
  const caller = callerOf(context);
  requireRole(caller, Role.ADMIN);
  return caller;
}

/** The user whose session makes the call; API keys are outside this surface. */
export function sessionCaller(context: Context): Caller {
  const caller = memberCaller(context);
  if (caller.kind !== CallerKind.SESSION) {
    throw gatewayError(ErrorReason.ENDPOINT_NOT_ALLOWED, 'This operation needs a signed-in session.');
  }
  return caller;
}

/** The platform operator whose session makes the call. */
export function operatorCaller(context: Context): Caller {
  const caller = callerOf(context);
  requireOperator(caller);
  return caller;
}
