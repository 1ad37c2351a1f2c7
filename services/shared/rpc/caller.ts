import { create } from '@bufbuild/protobuf';
import type { CallOptions, ContextValues, HandlerContext } from '@connectrpc/connect';
import { createContextKey, createContextValues } from '@connectrpc/connect';
import { type Caller, CallerKind, CallerSchema, Role } from '#gen/modelgateway/common/v1/caller_pb.ts';
import { ErrorReason, gatewayError } from '../errors.ts';

export { type Caller, CallerKind, CallerSchema, Role };

const callerKey = createContextKey<Caller | undefined>(undefined, { description: 'caller' });

/** On whose behalf the RPC is made. Fails with UNAUTHENTICATED_SERVICE when the call has no caller. */
export function callerOf(context: Pick<HandlerContext, 'values'>): Caller {
  const caller = context.values.get(callerKey);
  if (caller === undefined) {
    throw gatewayError(ErrorReason.UNAUTHENTICATED_SERVICE, 'The call carries no caller.');
  }
  return caller;
}

/** The caller among context values; undefined when there is none. For interceptors and transports. */
export const callerAmong = (values: ContextValues): Caller | undefined => values.get(callerKey);

/** Sets the caller among the context values of a call that was verified. */
export const setCaller = (values: ContextValues, caller: Caller): ContextValues => values.set(callerKey, caller);

/** To be passed as a client's `contextValues`: makes the RPC on the caller's behalf. */
export const callerContext = (caller: Caller): ContextValues => createContextValues().set(callerKey, caller);

/** A service acting for itself, such as the shipper of usage events. */
export const serviceCaller = (name: string): Caller =>
  create(CallerSchema, { kind: CallerKind.SERVICE, service: name });

/** Options of an RPC that a service makes for itself. */
export const asService = (name: string): Pick<CallOptions, 'contextValues'> => ({
  contextValues: callerContext(serviceCaller(name)),
});

/** A role that something needs, and who has it. */
type NeededRole = typeof Role.MEMBER | typeof Role.ADMIN;
const namesFrom: Readonly<Record<NeededRole, string>> = {
  [Role.MEMBER]: 'members of an organization',
  [Role.ADMIN]: 'admins and owners of the organization',
};

/** Refuses a caller whose role in the organization is below `role` with INSUFFICIENT_ROLE. */
export function requireRole(caller: Caller, role: NeededRole): void {
  if (caller.role < role) throw insufficientRole(namesFrom[role]);
}

/** Refuses everybody but platform operators with INSUFFICIENT_ROLE. */
export function requireOperator(caller: Caller): void {
  if (!caller.operator) throw insufficientRole('platform operators');
}

/** Refuses everybody but a service acting for itself (one of `names`, if given) with INSUFFICIENT_ROLE. */
export function requireService(caller: Caller, ...names: string[]): void {
  const named = names.length === 0 || names.includes(caller.service);
  if (caller.kind === CallerKind.SERVICE && named) return;
  throw insufficientRole(names.length === 0 ? 'services of the gateway' : `the services ${names.join(', ')}`);
}

/**
 * The user whose session makes the call, in at least this role if one is given; API keys cannot call this (service.md, Authentication).
 * Fails with ENDPOINT_NOT_ALLOWED or INSUFFICIENT_ROLE.
 */
export function sessionCaller(context: Pick<HandlerContext, 'values'>, role?: NeededRole): Caller {
  const caller = callerOf(context);
  if (caller.kind !== CallerKind.SESSION) {
    throw gatewayError(ErrorReason.ENDPOINT_NOT_ALLOWED, 'This operation needs a user session.');
  }
  if (role !== undefined) requireRole(caller, role);
  return caller;
}

/** The platform operator who makes the call, in a session or from the operators' command line; others fail with INSUFFICIENT_ROLE. */
export function operatorCaller(context: Pick<HandlerContext, 'values'>): Caller {
  const caller = callerOf(context);
  requireOperator(caller);
  return caller;
}

const insufficientRole = (allowed: string) =>
  gatewayError(ErrorReason.INSUFFICIENT_ROLE, `Only ${allowed} may do this.`);
