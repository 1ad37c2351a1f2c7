import { create } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import type { Principal } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import { CallerConstraintsSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { scopeBits } from '#shared/scopes.ts';
import { compileIpAllowlist } from '../../guards/ip-allowlist.ts';
import type { KeyPrincipal } from '../../principal.ts';

/** A principal as requests need it: scopes as bits, addresses as masks, made once per answer of Keys. */
export function keyPrincipal(principal: Principal): KeyPrincipal {
  const { constraints, rateLimits } = principal;
  return {
    kind: 'key',
    keyId: principal.keyId,
    tenantId: principal.tenantId,
    userId: principal.userId,
    role: principal.role,
    keyType: principal.keyType === KeyType.MANAGEMENT ? 'management' : 'inference',
    scopeBits: scopeBits(principal.scopes),
    allowsAddress: compileIpAllowlist(constraints?.ipAllowlist ?? []),
    tenantSuspended: principal.tenantSuspended,
    expiresAtMs: principal.expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(principal.expiresAt),
    constraints: create(CallerConstraintsSchema, {
      modelAllowlist: constraints?.modelAllowlist ?? [],
      spendCapNanoUsd: constraints?.spendCapNanoUsd,
      requestsPerMinute: rateLimits?.requestsPerMinute ?? 0,
      tokensPerMinute: rateLimits?.tokensPerMinute ?? 0,
      concurrentRequests: rateLimits?.concurrentRequests ?? 0,
    }),
  };
}
