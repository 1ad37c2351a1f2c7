import { expect, test } from 'vitest';
import { statusOf } from '#shared/error-table.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import { errorBody, retryHeaders } from './errors.ts';

/** The rows of openai-contract.md section 2, and what decisions.md adds: status, type and code. */
const rows: readonly (readonly [keyof typeof ErrorReason, status: number, type: string, code: string | null])[] = [
  ['MISSING_API_KEY', 401, 'invalid_request_error', 'missing_api_key'],
  ['INVALID_API_KEY', 401, 'invalid_request_error', 'invalid_api_key'],
  ['EXPIRED_API_KEY', 401, 'invalid_request_error', 'expired_api_key'],
  ['INVALID_TOKEN', 401, 'invalid_request_error', 'invalid_token'],
  ['EXPIRED_TOKEN', 401, 'invalid_request_error', 'expired_token'],
  ['ENDPOINT_NOT_ALLOWED', 403, 'authentication_error', 'endpoint_not_allowed'],
  ['MISSING_SCOPE', 403, 'permission_error', 'missing_scope'],
  ['INSUFFICIENT_ROLE', 403, 'permission_error', 'insufficient_role'],
  ['MODEL_NOT_ALLOWED', 403, 'permission_error', 'model_not_allowed'],
  ['IP_NOT_ALLOWED', 403, 'permission_error', 'ip_not_allowed'],
  ['TENANT_SUSPENDED', 403, 'permission_error', 'tenant_suspended'],
  ['KEY_QUOTA_EXCEEDED', 403, 'permission_error', 'key_quota_exceeded'],
  ['MODEL_NOT_FOUND', 404, 'invalid_request_error', 'model_not_found'],
  ['MODEL_SUNSET', 410, 'invalid_request_error', 'model_sunset'],
  ['UNKNOWN_URL', 404, 'invalid_request_error', 'unknown_url'],
  ['METHOD_NOT_SUPPORTED', 405, 'invalid_request_error', 'method_not_supported'],
  ['UNSUPPORTED_HTTP', 501, 'invalid_request_error', null],
  ['INVALID_REQUEST', 400, 'invalid_request_error', null],
  ['IDEMPOTENCY_KEY_REUSED', 400, 'invalid_request_error', 'idempotency_key_reused'],
  ['RANGE_TOO_LARGE', 400, 'invalid_request_error', 'range_too_large'],
  ['CONTEXT_LENGTH_EXCEEDED', 400, 'invalid_request_error', 'context_length_exceeded'],
  ['UNSUPPORTED_CONTENT_TYPE', 415, 'invalid_request_error', 'unsupported_content_type'],
  ['REQUEST_TOO_LARGE', 413, 'invalid_request_error', 'request_too_large'],
  ['RATE_LIMITED', 429, 'requests', 'rate_limit_exceeded'],
  ['TOKEN_RATE_LIMITED', 429, 'tokens', 'rate_limit_exceeded'],
  ['SPEND_CAP_EXCEEDED', 429, 'insufficient_quota', 'spend_cap_exceeded'],
  ['COST_LIMIT_EXCEEDED', 429, 'insufficient_quota', 'cost_limit_exceeded'],
  ['PAYG_CAP_EXCEEDED', 429, 'insufficient_quota', 'payg_cap_exceeded'],
  ['CREDIT_BALANCE_EXHAUSTED', 429, 'insufficient_quota', 'credit_balance_exhausted'],
  ['MODEL_UNAVAILABLE', 503, 'service_unavailable_error', 'model_unavailable'],
  ['OVERLOADED', 503, 'service_unavailable_error', 'server_is_overloaded'],
  ['NO_CAPACITY', 503, 'service_unavailable_error', 'server_is_overloaded'],
  ['UNAUTHENTICATED_SERVICE', 503, 'service_unavailable_error', 'server_is_overloaded'],
  ['REGISTRATION_UNAVAILABLE', 503, 'service_unavailable_error', 'registration_unavailable'],
  ['UPSTREAM_ERROR', 502, 'server_error', 'upstream_error'],
  ['UPSTREAM_TIMEOUT', 504, 'server_error', 'upstream_timeout'],
];

/** What is wrong with a service token is for operators. */
const outOfReach = 'A part of the gateway is out of reach. Try again shortly.';

test.each(rows)('%s is answered as %i %s %s', (reason, status, type, code) => {
  const error = gatewayError(ErrorReason[reason], 'What is wrong.');
  expect(statusOf(error)).toBe(status);
  const message = reason === 'UNAUTHENTICATED_SERVICE' ? outOfReach : 'What is wrong.';
  expect(errorBody(error)).toEqual({ error: { message, type, param: null, code } });
});

test('half of a character, as where a text was cut or a model was named so, is in no answer: Python fails to print it', () => {
  const error = gatewayError(ErrorReason.MODEL_NOT_FOUND, 'The model `a\ud83d` does not exist.');
  expect(errorBody(error).error.message).toBe('The model `a\ufffd` does not exist.');
  // An error in a stream, and an event of a realtime session, quote it by themselves.
  expect(error.message.isWellFormed()).toBe(true);
});

const waits: readonly (readonly [keyof typeof ErrorReason, askedMs: number, toldSeconds: string])[] = [
  ['RATE_LIMITED', 500, '1'],
  ['RATE_LIMITED', 59_001, '60'],
  ['RATE_LIMITED', 3_600_000, '60'],
  ['TOKEN_RATE_LIMITED', 3_600_000, '60'],
  ['MODEL_UNAVAILABLE', 0, '5'],
  ['MODEL_UNAVAILABLE', 7_000, '7'],
  ['MODEL_UNAVAILABLE', 60_000, '15'],
  ['OVERLOADED', 0, '5'],
  ['UNAUTHENTICATED_SERVICE', 0, '5'],
  ['OVERLOADED', 60_000, '15'],
  // Without a reset: others hold what is left.
  ['SPEND_CAP_EXCEEDED', 5_000, '5'],
];

test.each(waits)('Retry-After of %s stays within its bounds: %i ms are given as %s s', (reason, retryAfterMs, told) => {
  const error = gatewayError(ErrorReason[reason], 'Later.', { retryAfterMs });
  expect(retryHeaders(error)).toEqual({ 'retry-after': told });
});

test.each(['SPEND_CAP_EXCEEDED', 'COST_LIMIT_EXCEEDED', 'PAYG_CAP_EXCEEDED', 'CREDIT_BALANCE_EXHAUSTED'] as const)(
  'a client that meets %s is told not to retry before the budget resets',
  (reason) => {
    const error = gatewayError(ErrorReason[reason], 'It is spent.', {
      retryAfterMs: 43_200_000,
      resetsAtMs: 86_400_000,
    });
    expect(retryHeaders(error)).toEqual({ 'x-should-retry': 'false', 'retry-after': '43200' });
  },
);

test('an error is short, whatever it quotes, and well-formed', () => {
  const name = `x${'😀'.repeat(100_000)}`;
  const { error } = errorBody(invalidRequest(name, `${name} is given twice.`));
  for (const text of [error.message, error.param!]) {
    expect(text.length).toBeLessThanOrEqual(4_000);
    expect(text.isWellFormed()).toBe(true);
    expect(text).toContain('x😀');
  }
});
