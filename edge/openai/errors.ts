import { type Static, Type } from 'typebox';
import { codesByStatus, errorCode, typeOf } from '#shared/error-table.ts';
import { ErrorReason, type GatewayError } from '#shared/errors.ts';
import { budgetsByNoRoomReason, isHeldByOthers } from '#shared/no-room.ts';
import { outOfReachText } from '#shared/rpc/connect-errors.ts';
import { orNull } from '../http/nullable.ts';

const codes = [...codesByStatus()].map(
  ([status, codes]) => `${status}: ${codes.map((code) => `\`${code}\``).join(', ')}`,
);

/** The body of every error: all four keys, always (openai-contract.md section 2). */
export const errorBodySchema = Type.Object(
  {
    error: Type.Object(
      {
        message: Type.String(),
        type: Type.String(),
        param: orNull(Type.String({ description: 'The field or parameter at fault.' })),
        code: orNull(
          Type.String({
            description:
              `What programs should branch on. By status: ${codes.join('; ')}. Another tells what is wrong with the field, such as ` +
              '`missing_required_field` or `invalid_value`, or is what an upstream said.',
          }),
        ),
      },
      { $id: 'ErrorDetail' },
    ),
  },
  { $id: 'Error', description: 'What went wrong.' },
);

/** The body of an error. */
export const errorBody = (error: GatewayError): Static<typeof errorBodySchema> => ({
  error: {
    message: cut(textOf(error), 4_000),
    type: typeOf(error),
    param: error.details.param === undefined ? null : cut(error.details.param, 255),
    code: errorCode(error),
  },
});

/** An error may quote the name of a member, which may be as long as the body; nobody counts the memory of answers that nobody reads. */
const cut = (text: string, lengthMax: number): string => text.slice(0, lengthMax).toWellFormed();

/** Service tokens are the gateway's own affair: what is wrong with one is for the log, and for the operators' command line. */
const textOf = ({ reason, message }: GatewayError): string =>
  reason === ErrorReason.UNAUTHENTICATED_SERVICE ? outOfReachText : message;

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
  const { retryAfterMs } = error.details;
  if (budgetsByNoRoomReason.has(error.reason) && !isHeldByOthers(error)) {
    const headers: Record<string, string> = { 'x-should-retry': 'false' };
    if (retryAfterMs !== undefined) headers['retry-after'] = seconds(retryAfterMs);
    return headers;
  }
  if (unavailableReasons.has(error.reason)) {
    const { min, max } = unavailableWaitMs;
    return { 'retry-after': seconds(Math.min(Math.max(retryAfterMs ?? min, min), max)) };
  }
  if (retryAfterMs === undefined) return {};
  const waitMs = rateReasons.has(error.reason) ? Math.min(retryAfterMs, rateLimitWaitSecondsMax * 1000) : retryAfterMs;
  return { 'retry-after': seconds(waitMs) };
}

const seconds = (ms: number): string => String(Math.max(1, Math.ceil(ms / 1000)));
