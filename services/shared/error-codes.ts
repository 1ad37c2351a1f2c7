import { ErrorReason, type GatewayError } from './errors.ts';

/** The reasons of the vocabulary; the generated type also allows unknown numbers. */
export type KnownReason = (typeof ErrorReason)[keyof typeof ErrorReason];

/**
 * The platform's error code for each reason (openai-contract.md section 2): clients branch on it, and usage events and jobs keep it. Null:
 * the reason has no code.
 */
const codes: Readonly<Record<KnownReason, string | null>> = {
  [ErrorReason.UNSPECIFIED]: 'internal_error',
  [ErrorReason.MISSING_API_KEY]: 'missing_api_key',
  [ErrorReason.INVALID_API_KEY]: 'invalid_api_key',
  [ErrorReason.EXPIRED_API_KEY]: 'expired_api_key',
  [ErrorReason.INVALID_TOKEN]: 'invalid_token',
  [ErrorReason.EXPIRED_TOKEN]: 'expired_token',
  [ErrorReason.INVALID_CREDENTIALS]: 'invalid_credentials',
  // Service tokens are the gateway's own affair: another part may serve the client, or this one once it is repaired.
  [ErrorReason.UNAUTHENTICATED_SERVICE]: 'server_is_overloaded',
  [ErrorReason.ENDPOINT_NOT_ALLOWED]: 'endpoint_not_allowed',
  [ErrorReason.MISSING_SCOPE]: 'missing_scope',
  [ErrorReason.IP_NOT_ALLOWED]: 'ip_not_allowed',
  [ErrorReason.TENANT_SUSPENDED]: 'tenant_suspended',
  [ErrorReason.INSUFFICIENT_ROLE]: 'insufficient_role',
  [ErrorReason.MODEL_NOT_FOUND]: 'model_not_found',
  [ErrorReason.MODEL_SUNSET]: 'model_sunset',
  [ErrorReason.MODEL_NOT_ALLOWED]: 'model_not_allowed',
  [ErrorReason.MODEL_UNAVAILABLE]: 'model_unavailable',
  [ErrorReason.OVERLOADED]: 'server_is_overloaded',
  [ErrorReason.NO_CAPACITY]: 'server_is_overloaded',
  [ErrorReason.RATE_LIMITED]: 'rate_limit_exceeded',
  [ErrorReason.TOKEN_RATE_LIMITED]: 'rate_limit_exceeded',
  [ErrorReason.SPEND_CAP_EXCEEDED]: 'spend_cap_exceeded',
  [ErrorReason.COST_LIMIT_EXCEEDED]: 'cost_limit_exceeded',
  [ErrorReason.PAYG_CAP_EXCEEDED]: 'payg_cap_exceeded',
  [ErrorReason.CREDIT_BALANCE_EXHAUSTED]: 'credit_balance_exhausted',
  [ErrorReason.INVALID_REQUEST]: null,
  [ErrorReason.CONTEXT_LENGTH_EXCEEDED]: 'context_length_exceeded',
  [ErrorReason.UNSUPPORTED_CONTENT_TYPE]: 'unsupported_content_type',
  [ErrorReason.REQUEST_TOO_LARGE]: 'request_too_large',
  [ErrorReason.NOT_FOUND]: 'not_found',
  [ErrorReason.UNKNOWN_URL]: 'unknown_url',
  [ErrorReason.METHOD_NOT_SUPPORTED]: 'method_not_supported',
  [ErrorReason.UNSUPPORTED_HTTP]: null,
  [ErrorReason.CONFLICT]: 'conflict',
  [ErrorReason.IDEMPOTENCY_KEY_REUSED]: 'idempotency_key_reused',
  [ErrorReason.KEY_QUOTA_EXCEEDED]: 'key_quota_exceeded',
  [ErrorReason.RANGE_TOO_LARGE]: 'range_too_large',
  [ErrorReason.REGISTRATION_UNAVAILABLE]: 'registration_unavailable',
  [ErrorReason.INVALID_CODE]: 'invalid_code',
  [ErrorReason.UPSTREAM_REFUSED]: null,
  [ErrorReason.UPSTREAM_ERROR]: 'upstream_error',
  [ErrorReason.UPSTREAM_TIMEOUT]: 'upstream_timeout',
  [ErrorReason.CANCELLED]: 'client_closed_request',
  [ErrorReason.DEADLINE_EXCEEDED]: 'deadline_exceeded',
  [ErrorReason.UNIMPLEMENTED]: 'not_implemented',
  [ErrorReason.INTERNAL]: 'internal_error',
};

/** The code of an error: its own, else the upstream's, else its reason's. A reason from a newer service has none. */
export const errorCode = (error: GatewayError): string | null =>
  error.details.code ?? error.details.upstream?.code ?? codes[error.reason as KnownReason] ?? null;
