import { create } from '@bufbuild/protobuf';
import type { CallOptions } from '@connectrpc/connect';
import type { FastifyRequest } from 'fastify';
import { type Caller, CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { clientAddress } from './client-address.ts';

/** The caller on whose behalf the edge makes RPCs for an authenticated request. */
export function callerOfRequest(request: FastifyRequest): Caller {
  const principal = request.principal!;
  // Written out, since every request makes one: `create` walks the fields by reflection.
  return {
    $typeName: 'modelgateway.common.v1.Caller',
    kind: principal.kind === 'key' ? CallerKind.API_KEY : CallerKind.SESSION,
    tenantId: principal.tenantId,
    userId: principal.userId,
    role: principal.role,
    apiKeyId: principal.kind === 'key' ? principal.keyId : '',
    sessionId: principal.kind === 'session' ? principal.sessionId : '',
    operator: principal.kind === 'session' && principal.operator,
    ip: clientAddress(request),
    requestId: request.id,
    service: '',
  };
}

/** The caller of a request without a credential, such as a login: its address and request id. */
export const anonymousCaller = (request: FastifyRequest): Caller =>
  create(CallerSchema, { kind: CallerKind.UNSPECIFIED, ip: clientAddress(request), requestId: request.id });

/** Options of an RPC on behalf of whoever makes the request. */
export const asCaller = (request: FastifyRequest): Pick<CallOptions, 'contextValues'> => ({
  contextValues: callerContext(callerOfRequest(request)),
});

/** Options of an RPC on behalf of the caller that carries the body or result of a job: many large ones take turns, which takes longer. */
export const asCallerWithJob = (request: FastifyRequest): Pick<CallOptions, 'contextValues' | 'timeoutMs'> => ({
  ...asCaller(request),
  timeoutMs: 60_000,
});

/** Options of an RPC for a request without a credential. */
export const asAnonymous = (request: FastifyRequest): Pick<CallOptions, 'contextValues'> => ({
  contextValues: callerContext(anonymousCaller(request)),
});
