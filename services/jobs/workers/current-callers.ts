import { create } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { Client } from '@connectrpc/connect';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { OrganizationStatus } from '#gen/modelgateway/auth/v1/organization_pb.ts';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { type CallerConstraints, CallerConstraintsSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { constraintsOfKey } from '#shared/caller-constraints.ts';
import type { Clock } from '#shared/clock.ts';
import { ErrorReason, gatewayError, tenantSuspended } from '#shared/errors.ts';
import { scopeOf } from '#shared/operations.ts';
import { asService, type Caller } from '#shared/rpc/caller.ts';
import { scopeBit, scopeBits } from '#shared/scopes.ts';

export type CurrentCallersDeps = {
  keys: Pick<Client<typeof KeysService>, 'getPrincipal'>;
  auth: Pick<Client<typeof AuthService>, 'getUsers' | 'getTenants'>;
  clock: Pick<Clock, 'now'>;
};

/** The current state of a job's caller, when the job runs. */
export type CurrentCaller = Pick<Caller, 'role'> & {
  constraints: CallerConstraints;
  /** Refuses an operation for which the caller's key has lost the scope. */
  requireScope(operation: Operation): void;
};

const options = () => ({ ...asService('jobs'), timeoutMs: 3_000 });

/**
 * Looks up whether a job's caller may still run it, since its submission may be long ago. Rejects with INVALID_API_KEY, EXPIRED_API_KEY,
 * INVALID_TOKEN or TENANT_SUSPENDED; OVERLOADED when that cannot be told.
 *
 * A key's IP allowlist is not checked: it says from where the key may be used; the submission was such a use, from an allowed address, and
 * a running job has no address. Reading the job checks the reader's address.
 */
export const currentCaller = (deps: CurrentCallersDeps, caller: Caller): Promise<CurrentCaller> =>
  caller.apiKeyId === '' ? currentUser(deps, caller) : currentKey(deps, caller);

async function currentKey({ keys, clock }: CurrentCallersDeps, { apiKeyId }: Caller): Promise<CurrentCaller> {
  const { principal } = await keys.getPrincipal({ keyId: apiKeyId }, options());
  if (principal === undefined) {
    throw gatewayError(ErrorReason.INVALID_API_KEY, 'The API key of this job has been deleted or revoked.');
  }
  if (principal.expiresAt !== undefined && timestampMs(principal.expiresAt) <= clock.now()) {
    throw gatewayError(ErrorReason.EXPIRED_API_KEY, 'The API key of this job has expired.');
  }
  if (principal.tenantSuspended) throw tenantSuspended();
  const bits = scopeBits(principal.scopes);
  return {
    role: principal.role,
    constraints: constraintsOfKey(principal),
    requireScope(operation) {
      const scope = scopeOf(operation);
      if ((bits & scopeBit(scope)) !== 0) return;
      throw gatewayError(ErrorReason.MISSING_SCOPE, `The API key of this job lacks the scope \`${scope}\`.`);
    },
  };
}

async function currentUser({ auth }: CurrentCallersDeps, { tenantId, userId }: Caller): Promise<CurrentCaller> {
  const [{ users }, { organizations }] = await Promise.all([
    auth.getUsers({ userIds: [userId] }, options()),
    auth.getTenants({ tenantIds: [tenantId] }, options()),
  ]);
  const user = users[0];
  if (user === undefined || !user.isActive) {
    throw gatewayError(ErrorReason.INVALID_TOKEN, 'The user of this job is no longer active.');
  }
  if (organizations[0]?.status === OrganizationStatus.SUSPENDED) throw tenantSuspended();
  return { role: user.role, constraints: create(CallerConstraintsSchema, {}), requireScope() {} };
}
