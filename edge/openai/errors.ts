import { errorCode, type KnownReason } from '#shared/error-codes.ts';
import { ErrorReason, type GatewayError } from '#shared/errors.ts';

/** The body of every error: all four keys, always (openai-contract.md section 2). */
export type ErrorBody = { error: { message: string; type: string; param: string | null; code: string | null } };

type Row = { status: number; type: string };

const row = (status: number, type: string): Row => ({ status, type });

/** The one place where a reason becomes HTTP. A reason without a row does not compile. */
const rows = {
  [ErrorReason.UNSPECIFIED]: row(500, 'server_error'),
  [ErrorReason.MISSING_API_KEY]: row(401, 'invalid_request_error'),
  [ErrorReason.INVALID_API_KEY]: row(401, 'invalid_request_error'),
  [ErrorReason.EXPIRED_API_KEY]: row(401, 'invalid_request_error'),
  [ErrorReason.INVALID_TOKEN]: row(401, 'invalid_request_error'),
  [ErrorReason.EXPIRED_TOKEN]: row(401, 'invalid_request_error'),
  [ErrorReason.INVALID_CREDENTIALS]: row(401, 'invalid_request_error'),
  [ErrorReason.UNAUTHENTICATED_SERVICE]: row(500, 'server_error'),
  [ErrorReason.ENDPOINT_NOT_ALLOWED]: row(403, 'authentication_error'),
  [ErrorReason.MISSING_SCOPE]: row(403, 'permission_error'),
  [ErrorReason.IP_NOT_ALLOWED]: row(403, 'permission_error'),
  [ErrorReason.TENANT_SUSPENDED]: row(403, 'permission_error'),
  [ErrorReason.INSUFFICIENT_ROLE]: row(403, 'permission_error'),
  [ErrorReason.MODEL_NOT_FOUND]: row(404, 'invalid_request_error'),
  [ErrorReason.MODEL_SUNSET]: row(410, 'invalid_request_error'),
  [ErrorReason.MODEL_NOT_ALLOWED]: row(403, 'permission_error'),
  [ErrorReason.MODEL_UNAVAILABLE]: row(503, 'service_unavailable_error'),
  [ErrorReason.OVERLOADED]: row(503, 'service_unavailable_error'),
  [ErrorReason.RATE_LIMITED]: row(429, 'requests'),
  [ErrorReason.TOKEN_RATE_LIMITED]: row(429, 'tokens'),
  [ErrorReason.SPEND_CAP_EXCEEDED]: row(429, 'insufficient_quota'),
  [ErrorReason.COST_LIMIT_EXCEEDED]: row(429, 'insufficient_quota'),
  [ErrorReason.PAYG_CAP_EXCEEDED]: row(429, 'insufficient_quota'),
  [ErrorReason.CREDIT_BALANCE_EXHAUSTED]: row(429, 'insufficient_quota'),
  [ErrorReason.INVALID_REQUEST]: row(400, 'invalid_request_error'),
  [ErrorReason.CONTEXT_LENGTH_EXCEEDED]: row(400, 'invalid_request_error'),
  [ErrorReason.UNSUPPORTED_CONTENT_TYPE]: row(415, 'invalid_request_error'),
  [ErrorReason.REQUEST_TOO_LARGE]: row(413, 'invalid_request_error'),
  [ErrorReason.NOT_FOUND]: row(404, 'invalid_request_error'),
  [ErrorReason.UNKNOWN_URL]: row(404, 'invalid_request_error'),
  [ErrorReason.METHOD_NOT_SUPPORTED]: row(405, 'invalid_request_error'),
  [ErrorReason.CONFLICT]: row(409, 'invalid_request_error'),
  [ErrorReason.IDEMPOTENCY_KEY_REUSED]: row(400, 'invalid_request_error'),
  [ErrorReason.KEY_QUOTA_EXCEEDED]: row(403, 'permission_error'),
  [ErrorReason.RANGE_TOO_LARGE]: row(400, 'invalid_request_error'),
  [ErrorReason.REGISTRATION_UNAVAILABLE]: row(503, 'service_unavailable_error'),
  [ErrorReason.INVALID_CODE]: row(400, 'invalid_request_error'),
  // The status of an upstream's refusal is the upstream's own; see `statusOf`.
  [ErrorReason.UPSTREAM_REFUSED]: row(400, 'invalid_request_error'),
  [ErrorReason.UPSTREAM_ERROR]: row(502, 'server_error'),
  [ErrorReason.UPSTREAM_TIMEOUT]: row(504, 'server_error'),
  // Nobody is left to read it; the number is what access logs know for "client closed request".
  [ErrorReason.CANCELLED]: row(499, 'server_error'),
  [ErrorReason.DEADLINE_EXCEEDED]: row(504, 'server_error'),
  [ErrorReason.UNIMPLEMENTED]: row(501, 'server_error'),
  [ErrorReason.INTERNAL]: row(500, 'server_error'),
} satisfies Record<KnownReason, Row>;

/** A newer service may send a reason which this edge does not know. */
const rowOf = (reason: ErrorReason): Row => rows[reason as KnownReason] ?? rows[ErrorReason.UNSPECIFIED];

const budgetReasons: ReadonlySet<ErrorReason> = new Set([
  ErrorReason.SPEND_CAP_EXCEEDED,
  ErrorReason.COST_LIMIT_EXCEEDED,
  ErrorReason.PAYG_CAP_EXCEEDED,
  ErrorReason.CREDIT_BALANCE_EXHAUSTED,
]);

/** The HTTP status of an error. */
export const statusOf = (error: GatewayError): number =>
  error.reason === ErrorReason.UPSTREAM_REFUSED && error.details.upstream !== undefined
    ? error.details.upstream.status
    : rowOf(error.reason).status;

/** The body of an error. */
export const errorBody = (error: GatewayError): ErrorBody => ({
  error: {
    message: error.message,
    type: error.details.upstream?.type || rowOf(error.reason).type,
    param: error.details.param ?? null,
    code: errorCode(error),
  },
});

/** Refusals of rate limits, as opposed to budgets. */
export const rateReasons: ReadonlySet<ErrorReason> = new Set([
  ErrorReason.RATE_LIMITED,
  ErrorReason.TOKEN_RATE_LIMITED,
]);

/** Those who may be served again soon: their clients are to come back, but not all at once. */
const unavailableReasons: ReadonlySet<ErrorReason> = new Set([ErrorReason.MODEL_UNAVAILABLE, ErrorReason.OVERLOADED]);
const unavailableWaitMs = { min: 5_000, max: 15_000 };

/** Retry-After of a rate limit: above 60 openai-node ignores the header and retries at once. */
const rateLimitWaitSecondsMax = 60;

/** The headers that tell clients whether and when to try again. */
export function retryHeaders(error: GatewayError, nowMs: number): Record<string, string> {
  if (error.reason === ErrorReason.MODEL_SUNSET) return { 'x-should-retry': 'false' };
  if (budgetReasons.has(error.reason)) {
    const headers: Record<string, string> = { 'x-should-retry': 'false' };
    if (error.details.resetsAtMs !== undefined) headers['retry-after'] = seconds(error.details.resetsAtMs - nowMs);
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
