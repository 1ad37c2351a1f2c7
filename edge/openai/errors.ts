import { type Static, Type } from 'typebox';
import { errorCode, type KnownReason } from '#shared/error-codes.ts';
import { ErrorReason, type GatewayError } from '#shared/errors.ts';
import { budgetsByNoRoomReason } from '#shared/no-room.ts';
import { orNull } from '../http/nullable.ts';

/** The body of every error: all four keys, always (openai-contract.md section 2). */
export const errorBodySchema = Type.Object(
  {
    error: Type.Object({
      message: Type.String(),
      type: Type.String(),
      param: orNull(Type.String()),
      code: orNull(Type.String()),
    }),
  },
  { $id: 'Error', description: 'What went wrong; `param` names the field.' },
);

/** The platform's error type for each reason. A reason without one does not compile. */
const types: Readonly<Record<KnownReason, string>> = {
  [ErrorReason.UNSPECIFIED]: 'server_error',
  [ErrorReason.MISSING_API_KEY]: 'invalid_request_error',
  [ErrorReason.INVALID_API_KEY]: 'invalid_request_error',
  [ErrorReason.EXPIRED_API_KEY]: 'invalid_request_error',
  [ErrorReason.INVALID_TOKEN]: 'invalid_request_error',
  [ErrorReason.EXPIRED_TOKEN]: 'invalid_request_error',
  [ErrorReason.INVALID_CREDENTIALS]: 'invalid_request_error',
  [ErrorReason.UNAUTHENTICATED_SERVICE]: 'service_unavailable_error',
  [ErrorReason.ENDPOINT_NOT_ALLOWED]: 'authentication_error',
  [ErrorReason.MISSING_SCOPE]: 'permission_error',
  [ErrorReason.IP_NOT_ALLOWED]: 'permission_error',
  [ErrorReason.TENANT_SUSPENDED]: 'permission_error',
  [ErrorReason.INSUFFICIENT_ROLE]: 'permission_error',
  [ErrorReason.MODEL_NOT_FOUND]: 'invalid_request_error',
  [ErrorReason.MODEL_SUNSET]: 'invalid_request_error',
  [ErrorReason.MODEL_NOT_ALLOWED]: 'permission_error',
  [ErrorReason.MODEL_UNAVAILABLE]: 'service_unavailable_error',
  [ErrorReason.OVERLOADED]: 'service_unavailable_error',
  [ErrorReason.NO_CAPACITY]: 'service_unavailable_error',
  [ErrorReason.RATE_LIMITED]: 'requests',
  [ErrorReason.TOKEN_RATE_LIMITED]: 'tokens',
  [ErrorReason.SPEND_CAP_EXCEEDED]: 'insufficient_quota',
  [ErrorReason.COST_LIMIT_EXCEEDED]: 'insufficient_quota',
  [ErrorReason.PAYG_CAP_EXCEEDED]: 'insufficient_quota',
  [ErrorReason.CREDIT_BALANCE_EXHAUSTED]: 'insufficient_quota',
  [ErrorReason.INVALID_REQUEST]: 'invalid_request_error',
  [ErrorReason.CONTEXT_LENGTH_EXCEEDED]: 'invalid_request_error',
  [ErrorReason.UNSUPPORTED_CONTENT_TYPE]: 'invalid_request_error',
  [ErrorReason.REQUEST_TOO_LARGE]: 'invalid_request_error',
  [ErrorReason.NOT_FOUND]: 'invalid_request_error',
  [ErrorReason.UNKNOWN_URL]: 'invalid_request_error',
  [ErrorReason.METHOD_NOT_SUPPORTED]: 'invalid_request_error',
  [ErrorReason.UNSUPPORTED_HTTP]: 'invalid_request_error',
  [ErrorReason.CONFLICT]: 'invalid_request_error',
  [ErrorReason.IDEMPOTENCY_KEY_REUSED]: 'invalid_request_error',
  [ErrorReason.KEY_QUOTA_EXCEEDED]: 'permission_error',
  [ErrorReason.RANGE_TOO_LARGE]: 'invalid_request_error',
  [ErrorReason.REGISTRATION_UNAVAILABLE]: 'service_unavailable_error',
  [ErrorReason.INVALID_CODE]: 'invalid_request_error',
  [ErrorReason.UPSTREAM_REFUSED]: 'invalid_request_error',
  [ErrorReason.UPSTREAM_ERROR]: 'server_error',
  [ErrorReason.UPSTREAM_TIMEOUT]: 'server_error',
  [ErrorReason.CANCELLED]: 'server_error',
  [ErrorReason.DEADLINE_EXCEEDED]: 'server_error',
  [ErrorReason.UNIMPLEMENTED]: 'server_error',
  [ErrorReason.INTERNAL]: 'server_error',
};

/** The body of an error. */
export const errorBody = (error: GatewayError): Static<typeof errorBodySchema> => ({
  error: {
    message: error.message,
    // A newer service may send a reason that this edge does not know.
    type: error.details.upstream?.type || (types[error.reason as KnownReason] ?? types[ErrorReason.UNSPECIFIED]),
    param: error.details.param ?? null,
    code: errorCode(error),
  },
});

/** Refusals by rate limits, as opposed to budgets. */
export const rateReasons: ReadonlySet<ErrorReason> = new Set([
  ErrorReason.RATE_LIMITED,
  ErrorReason.TOKEN_RATE_LIMITED,
]);

/** Refusals that may pass soon: clients should come back, but not all at once. */
const unavailableReasons: ReadonlySet<ErrorReason> = new Set([
  ErrorReason.MODEL_UNAVAILABLE,
  ErrorReason.OVERLOADED,
  ErrorReason.NO_CAPACITY,
  ErrorReason.UNAUTHENTICATED_SERVICE,
]);
const unavailableWaitMs = { min: 5_000, max: 15_000 };

/** Retry-After of a rate limit: openai-node ignores values above 60 and retries at once. */
const rateLimitWaitSecondsMax = 60;

/** The headers that tell clients whether and when to try again. */
export function retryHeaders(error: GatewayError): Record<string, string> {
  if (error.reason === ErrorReason.MODEL_SUNSET) return { 'x-should-retry': 'false' };
  if (budgetsByNoRoomReason.has(error.reason)) {
    const headers: Record<string, string> = { 'x-should-retry': 'false' };
    if (error.details.retryAfterMs !== undefined) headers['retry-after'] = seconds(error.details.retryAfterMs);
    return headers;
  }
  if (unavailableReasons.has(error.reason)) {
    const { min, max } = unavailableWaitMs;
    return { 'retry-after': seconds(Math.min(Math.max(error.details.retryAfterMs ?? min, min), max)) };
  }
  if (error.details.retryAfterMs === undefined) return {};
  const waitMs = rateReasons.has(error.reason)
    ? Math.min(error.details.retryAfterMs, rateLimitWaitSecondsMax * 1000)
    : error.details.retryAfterMs;
  return { 'retry-after': seconds(waitMs) };
}

const seconds = (ms: number): string => String(Math.max(1, Math.ceil(ms / 1000)));
