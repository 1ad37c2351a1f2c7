import type { HandlerContext } from '@connectrpc/connect';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { type Caller, CallerKind, callerOf, requireOperator } from '#shared/rpc/caller.ts';

/** The user whose session makes the call; API keys are outside this surface (service.md, Authentication). */
export function sessionCaller(context: Pick<HandlerContext, 'values'>): Caller {
  const caller = callerOf(context);
  if (caller.kind !== CallerKind.SESSION) {
    throw gatewayError(ErrorReason.ENDPOINT_NOT_ALLOWED, 'API keys are managed in a signed-in session.');
  }
  return caller;
}

/** The platform operator who makes the call: in a session, or by the operators' command line. No API key is ever one. */
export function operatorCaller(context: Pick<HandlerContext, 'values'>): Caller {
  const caller = callerOf(context);
  requireOperator(caller);
  return caller;
}
