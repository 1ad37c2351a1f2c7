import type { HandlerContext } from '@connectrpc/connect';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { type Caller, CallerKind, callerOf, type Role, requireRole } from '#shared/rpc/caller.ts';

/** The caller, who must be signed in: API keys are outside this surface (service.md, API keys, rule 3). */
export function sessionCaller(context: Pick<HandlerContext, 'values'>, role?: Role): Caller {
  const caller = callerOf(context);
  if (caller.kind !== CallerKind.SESSION) {
    throw gatewayError(ErrorReason.ENDPOINT_NOT_ALLOWED, 'This operation needs a signed-in session.');
  }
  if (role !== undefined) requireRole(caller, role);
  return caller;
}
