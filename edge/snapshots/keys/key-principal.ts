import { KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import type { Principal } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import { constraintsOfKey } from '#shared/caller-constraints.ts';
import { scopeBits } from '#shared/scopes.ts';
import { compileIpAllowlist } from '../../guards/ip-allowlist.ts';
import type { KeyPrincipal } from '../../principal.ts';
import { msOrNever } from '../expiry.ts';

/** A principal in the form that requests with one of its secrets need: scopes as bits, addresses as masks; made once per answer of Keys. */
export function keyPrincipal(principal: Principal, digests: readonly string[]): KeyPrincipal {
  return {
    kind: 'key',
    keyId: principal.keyId,
    digests,
    tenantId: principal.tenantId,
    userId: principal.userId,
    role: principal.role,
    keyType: principal.keyType === KeyType.MANAGEMENT ? 'management' : 'inference',
    scopeBits: scopeBits(principal.scopes),
    allowsAddress: compileIpAllowlist(principal.constraints?.ipAllowlist ?? []),
    tenantSuspended: principal.tenantSuspended,
    expiresAtMs: msOrNever(principal.expiresAt),
    constraints: constraintsOfKey(principal),
  };
}
