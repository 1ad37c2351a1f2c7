import type { KnownReason } from './error-codes.ts';
import { ErrorReason, type GatewayError } from './errors.ts';

/** The HTTP status of each reason (openai-contract.md section 2): sent to clients, and kept in usage events. */
const statuses: Readonly<Record<KnownReason, number>> = {
  [ErrorReason.UNSPECIFIED]: 500,
  [ErrorReason.MISSING_API_KEY]: 401,
  [ErrorReason.INVALID_API_KEY]: 401,
  [ErrorReason.EXPIRED_API_KEY]: 401,
  [ErrorReason.INVALID_TOKEN]: 401,
  [ErrorReason.EXPIRED_TOKEN]: 401,
  [ErrorReason.INVALID_CREDENTIALS]: 401,
  [ErrorReason.UNAUTHENTICATED_SERVICE]: 503,
  [ErrorReason.ENDPOINT_NOT_ALLOWED]: 403,
  [ErrorReason.MISSING_SCOPE]: 403,
  [ErrorReason.IP_NOT_ALLOWED]: 403,
  [ErrorReason.TENANT_SUSPENDED]: 403,
  [ErrorReason.INSUFFICIENT_ROLE]: 403,
  [ErrorReason.MODEL_NOT_FOUND]: 404,
  [ErrorReason.MODEL_SUNSET]: 410,
  [ErrorReason.MODEL_NOT_ALLOWED]: 403,
  [ErrorReason.MODEL_UNAVAILABLE]: 503,
  [ErrorReason.OVERLOADED]: 503,
  [ErrorReason.NO_CAPACITY]: 503,
  [ErrorReason.RATE_LIMITED]: 429,
  [ErrorReason.TOKEN_RATE_LIMITED]: 429,
  [ErrorReason.SPEND_CAP_EXCEEDED]: 429,
  [ErrorReason.COST_LIMIT_EXCEEDED]: 429,
  [ErrorReason.PAYG_CAP_EXCEEDED]: 429,
  [ErrorReason.CREDIT_BALANCE_EXHAUSTED]: 429,
  [ErrorReason.INVALID_REQUEST]: 400,
  [ErrorReason.CONTEXT_LENGTH_EXCEEDED]: 400,
  [ErrorReason.UNSUPPORTED_CONTENT_TYPE]: 415,
  [ErrorReason.REQUEST_TOO_LARGE]: 413,
  [ErrorReason.NOT_FOUND]: 404,
  [ErrorReason.UNKNOWN_URL]: 404,
  [ErrorReason.METHOD_NOT_SUPPORTED]: 405,
  // RFC 9110 section 9.1 and RFC 9112 section 6.1.
  [ErrorReason.UNSUPPORTED_HTTP]: 501,
  [ErrorReason.CONFLICT]: 409,
  [ErrorReason.IDEMPOTENCY_KEY_REUSED]: 400,
  [ErrorReason.KEY_QUOTA_EXCEEDED]: 403,
  [ErrorReason.RANGE_TOO_LARGE]: 400,
  [ErrorReason.REGISTRATION_UNAVAILABLE]: 503,
  [ErrorReason.INVALID_CODE]: 400,
  // The status of an upstream's refusal is the upstream's own; see `statusOf`.
  [ErrorReason.UPSTREAM_REFUSED]: 400,
  [ErrorReason.UPSTREAM_ERROR]: 502,
  [ErrorReason.UPSTREAM_TIMEOUT]: 504,
  // Nobody is left to read it; access logs know the number as "client closed request".
  [ErrorReason.CANCELLED]: 499,
  [ErrorReason.DEADLINE_EXCEEDED]: 504,
  [ErrorReason.UNIMPLEMENTED]: 501,
  [ErrorReason.INTERNAL]: 500,
};

/** The HTTP status of an error. A newer service may send a reason that this process does not know. */
export const statusOf = (error: GatewayError): number =>
  error.reason === ErrorReason.UPSTREAM_REFUSED && error.details.upstream !== undefined
    ? error.details.upstream.status
    : (statuses[error.reason as KnownReason] ?? statuses[ErrorReason.UNSPECIFIED]);
