import { Code } from '@connectrpc/connect';
import { ErrorReason, type GatewayError } from './errors.ts';

/** The reasons of the vocabulary; the generated type also allows unknown numbers. */
type KnownReason = (typeof ErrorReason)[keyof typeof ErrorReason];

// OpenAI's error types; two more name what a rate limit counts.
const request = 'invalid_request_error';
const authentication = 'authentication_error';
const permission = 'permission_error';
const quota = 'insufficient_quota';
const unavailable = 'service_unavailable_error';
const server = 'server_error';

type Row = readonly [status: number, type: string, code: string | null, rpcCode: Code];

/**
 * What each reason is to those who do not know the vocabulary (openai-contract.md section 2): the HTTP status, which usage events keep too;
 * the error type; the error code, on which clients branch and which usage events and jobs keep, or null; and the RPC code. A reason without
 * a row does not compile.
 */
const rows: Readonly<Record<KnownReason, Row>> = {
  [ErrorReason.UNSPECIFIED]: [500, server, 'internal_error', Code.Internal],
  [ErrorReason.MISSING_API_KEY]: [401, request, 'missing_api_key', Code.Unauthenticated],
  [ErrorReason.INVALID_API_KEY]: [401, request, 'invalid_api_key', Code.Unauthenticated],
  [ErrorReason.EXPIRED_API_KEY]: [401, request, 'expired_api_key', Code.Unauthenticated],
  [ErrorReason.INVALID_TOKEN]: [401, request, 'invalid_token', Code.Unauthenticated],
  [ErrorReason.EXPIRED_TOKEN]: [401, request, 'expired_token', Code.Unauthenticated],
  [ErrorReason.INVALID_CREDENTIALS]: [401, request, 'invalid_credentials', Code.Unauthenticated],
  // Service tokens are the gateway's own affair: another part may serve the client, or this one once it is repaired.
  [ErrorReason.UNAUTHENTICATED_SERVICE]: [503, unavailable, 'server_is_overloaded', Code.Unauthenticated],
  [ErrorReason.ENDPOINT_NOT_ALLOWED]: [403, authentication, 'endpoint_not_allowed', Code.PermissionDenied],
  [ErrorReason.MISSING_SCOPE]: [403, permission, 'missing_scope', Code.PermissionDenied],
  [ErrorReason.IP_NOT_ALLOWED]: [403, permission, 'ip_not_allowed', Code.PermissionDenied],
  [ErrorReason.TENANT_SUSPENDED]: [403, permission, 'tenant_suspended', Code.PermissionDenied],
  [ErrorReason.INSUFFICIENT_ROLE]: [403, permission, 'insufficient_role', Code.PermissionDenied],
  [ErrorReason.MODEL_NOT_FOUND]: [404, request, 'model_not_found', Code.NotFound],
  [ErrorReason.MODEL_SUNSET]: [410, request, 'model_sunset', Code.FailedPrecondition],
  [ErrorReason.MODEL_NOT_ALLOWED]: [403, permission, 'model_not_allowed', Code.PermissionDenied],
  [ErrorReason.MODEL_UNAVAILABLE]: [503, unavailable, 'model_unavailable', Code.Unavailable],
  [ErrorReason.OVERLOADED]: [503, unavailable, 'server_is_overloaded', Code.Unavailable],
  [ErrorReason.NO_CAPACITY]: [503, unavailable, 'server_is_overloaded', Code.Unavailable],
  [ErrorReason.BUDGETS_OUT_OF_REACH]: [503, unavailable, 'server_is_overloaded', Code.Unavailable],
  [ErrorReason.RATE_LIMITED]: [429, 'requests', 'rate_limit_exceeded', Code.ResourceExhausted],
  [ErrorReason.TOKEN_RATE_LIMITED]: [429, 'tokens', 'rate_limit_exceeded', Code.ResourceExhausted],
  [ErrorReason.SPEND_CAP_EXCEEDED]: [429, quota, 'spend_cap_exceeded', Code.ResourceExhausted],
  [ErrorReason.COST_LIMIT_EXCEEDED]: [429, quota, 'cost_limit_exceeded', Code.ResourceExhausted],
  [ErrorReason.PAYG_CAP_EXCEEDED]: [429, quota, 'payg_cap_exceeded', Code.ResourceExhausted],
  [ErrorReason.CREDIT_BALANCE_EXHAUSTED]: [429, quota, 'credit_balance_exhausted', Code.ResourceExhausted],
  [ErrorReason.INVALID_REQUEST]: [400, request, null, Code.InvalidArgument],
  [ErrorReason.CONTEXT_LENGTH_EXCEEDED]: [400, request, 'context_length_exceeded', Code.InvalidArgument],
  [ErrorReason.UNSUPPORTED_CONTENT_TYPE]: [415, request, 'unsupported_content_type', Code.InvalidArgument],
  [ErrorReason.REQUEST_TOO_LARGE]: [413, request, 'request_too_large', Code.ResourceExhausted],
  [ErrorReason.NOT_FOUND]: [404, request, 'not_found', Code.NotFound],
  [ErrorReason.UNKNOWN_URL]: [404, request, 'unknown_url', Code.NotFound],
  [ErrorReason.METHOD_NOT_SUPPORTED]: [405, request, 'method_not_supported', Code.Unimplemented],
  // RFC 9110 section 9.1 and RFC 9112 section 6.1.
  [ErrorReason.UNSUPPORTED_HTTP]: [501, request, null, Code.Unimplemented],
  [ErrorReason.CONFLICT]: [409, request, 'conflict', Code.FailedPrecondition],
  [ErrorReason.IDEMPOTENCY_KEY_REUSED]: [400, request, 'idempotency_key_reused', Code.AlreadyExists],
  [ErrorReason.KEY_QUOTA_EXCEEDED]: [403, permission, 'key_quota_exceeded', Code.ResourceExhausted],
  [ErrorReason.RANGE_TOO_LARGE]: [400, request, 'range_too_large', Code.InvalidArgument],
  [ErrorReason.REGISTRATION_UNAVAILABLE]: [503, unavailable, 'registration_unavailable', Code.FailedPrecondition],
  [ErrorReason.INVALID_CODE]: [400, request, 'invalid_code', Code.InvalidArgument],
  // The status of an upstream's refusal is the upstream's own; see `statusOf`.
  [ErrorReason.UPSTREAM_REFUSED]: [400, request, null, Code.InvalidArgument],
  [ErrorReason.UPSTREAM_ERROR]: [502, server, 'upstream_error', Code.Unavailable],
  [ErrorReason.UPSTREAM_TIMEOUT]: [504, server, 'upstream_timeout', Code.DeadlineExceeded],
  // Nobody is left to read it; access logs know the number as "client closed request".
  [ErrorReason.CANCELLED]: [499, server, 'client_closed_request', Code.Canceled],
  [ErrorReason.DEADLINE_EXCEEDED]: [504, server, 'deadline_exceeded', Code.DeadlineExceeded],
  [ErrorReason.UNIMPLEMENTED]: [501, server, 'not_implemented', Code.Unimplemented],
  [ErrorReason.INTERNAL]: [500, server, 'internal_error', Code.Internal],
};

/** A newer service may send a reason that this process does not know. */
const rowOf = (reason: ErrorReason) => rows[reason as KnownReason] ?? rows[ErrorReason.UNSPECIFIED];

/** The HTTP status of an error. */
export const statusOf = ({ reason, details }: GatewayError): number =>
  reason === ErrorReason.UPSTREAM_REFUSED && details.upstream !== undefined
    ? details.upstream.status
    : rowOf(reason)[0];

/** The type of an error: the upstream's, else its reason's. */
export const typeOf = ({ reason, details }: GatewayError): string => details.upstream?.type || rowOf(reason)[1];

/** The code of an error: its own, else the upstream's, else its reason's. */
export const errorCode = ({ reason, details }: GatewayError): string | null =>
  details.code ?? details.upstream?.code ?? rowOf(reason)[2];

/** The codes of all reasons, by status. Nobody reads a 499. */
export const codesByStatus = (): ReadonlyMap<number, readonly string[]> => {
  const answered = Object.values(rows).flatMap(([status, , code]) =>
    code === null || status === 499 ? [] : [{ status, code }],
  );
  return new Map(
    [...Map.groupBy(answered, ({ status }) => status)]
      .sort(([one], [other]) => one - other)
      .map(([status, rows]) => [status, [...new Set(rows.map(({ code }) => code))]]),
  );
};

/** The RPC code under which a reason travels, for callers that do not know ErrorDetail: proxies, metrics, clients in other languages. */
export const rpcCodeOf = (reason: ErrorReason): Code => rowOf(reason)[3];
