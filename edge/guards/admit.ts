import { ErrorReason, gatewayError, tenantSuspended } from '#shared/errors.ts';
import { keyTypeOfScope, scopeBit } from '#shared/scopes.ts';
import type { Access } from '../access.ts';
import type { Principal } from '../principal.ts';

/** An access rule with its look-ups done once, when the route is registered. */
export type CompiledAccess = {
  access: Access;
  scopeBit: number;
  keyType: 'inference' | 'management' | null;
  startsWork: boolean;
  admitAfterBody: boolean;
};

export const compileAccess = (
  access: Access,
  { startsWork = false, admitAfterBody = false }: { startsWork?: boolean; admitAfterBody?: boolean },
): CompiledAccess => ({
  access,
  scopeBit: access.surface === 'api' ? scopeBit(access.scope) : 0,
  keyType: access.surface === 'api' ? keyTypeOfScope(access.scope) : null,
  startsWork,
  admitAfterBody,
});

/**
 * Decides on an authenticated request, in the order of decisions.md (Inference): surface, scope, address, suspension. Roles are checked by
 * the answering service, not here; the operator surface is checked here, since no single service answers all of it.
 */
export function admit(principal: Principal, rule: CompiledAccess, ip: string): void {
  if (principal.kind === 'key') {
    if (rule.keyType !== principal.keyType) {
      throw gatewayError(
        ErrorReason.ENDPOINT_NOT_ALLOWED,
        rule.keyType === null
          ? 'API keys cannot call this endpoint. Sign in and send the access token of a session instead.'
          : `This endpoint needs ${rule.keyType === 'inference' ? 'an inference' : 'a management'} key; you sent ${principal.keyType === 'inference' ? 'an inference' : 'a management'} key.`,
      );
    }
    if ((principal.scopeBits & rule.scopeBit) === 0) {
      throw gatewayError(
        ErrorReason.MISSING_SCOPE,
        `This API key lacks the scope \`${rule.access.surface === 'api' ? rule.access.scope : ''}\`.`,
      );
    }
    if (principal.allowsAddress !== null && !principal.allowsAddress(ip)) {
      throw gatewayError(
        ErrorReason.IP_NOT_ALLOWED,
        'This API key may not be used from your IP address: it is not on the IP allowlist of the key.',
      );
    }
  } else if (rule.access.surface === 'operator' && !principal.operator) {
    throw gatewayError(ErrorReason.INSUFFICIENT_ROLE, 'Only platform operators may call this endpoint.');
  }
  if (rule.startsWork && principal.tenantSuspended) throw tenantSuspended();
}
