import type { HandlerContext } from '@connectrpc/connect';
import { ErrorReason, gatewayError, notFound } from '#shared/errors.ts';
import { parseJobId } from '#shared/ids.ts';
import { type Caller, callerOf, sessionCaller } from '#shared/rpc/caller.ts';

/** The person on whose behalf the call is made, by key or session: services have no jobs of their own. */
export function ownerOf(context: Pick<HandlerContext, 'values'>): Caller {
  const caller = callerOf(context);
  if (caller.tenantId === '' || caller.userId === '') {
    throw gatewayError(ErrorReason.INSUFFICIENT_ROLE, 'Jobs belong to users.');
  }
  return caller;
}

/** The person on whose behalf the call is made, by a session only. */
export function sessionOwnerOf(context: Pick<HandlerContext, 'values'>): Caller {
  sessionCaller(context);
  return ownerOf(context);
}

/** Unknown, malformed, somebody else's and removed jobs look the same. */
export const noSuchJob = () => notFound('job');

export function requiredJobId(publicId: string): string {
  const id = parseJobId(publicId);
  if (id === null) throw noSuchJob();
  return id;
}
