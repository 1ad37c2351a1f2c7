import { ErrorReason, type GatewayError } from '#shared/errors.ts';

/** How often a worker takes a job at most; a job that ends its workers is ended itself. */
export const attemptsMax = 6;

const backoffMsFirst = 1_000;
const backoffMsMax = 60_000;

/** Faults that pass by themselves. All others would be the same the next time. */
const transientReasons: ReadonlySet<ErrorReason> = new Set([
  ErrorReason.UPSTREAM_ERROR,
  ErrorReason.UPSTREAM_TIMEOUT,
  // Of an upstream: a job's own limits were counted at its submission.
  ErrorReason.RATE_LIMITED,
  ErrorReason.OVERLOADED,
]);

/** Nothing was called: no deployment of the model serves, or none has room. */
const uncalledReasons: ReadonlySet<ErrorReason> = new Set([ErrorReason.MODEL_UNAVAILABLE, ErrorReason.NO_CAPACITY]);

/** Whether the job waits for its model, without an attempt. */
export const isUncalled = ({ reason }: GatewayError): boolean => uncalledReasons.has(reason);

/** Whether the job makes its call again behind the failed attempt of this number (from 1). */
export const isRetried = ({ reason }: GatewayError, attempt: number): boolean =>
  attempt < attemptsMax && transientReasons.has(reason);

/**
 * The failures of the attempt of this number that reports do not count: those behind which the job makes its call again, as it also
 * does when its worker ends, and the cancellation of the job, which neither failed nor succeeded.
 */
export const unmeteredReasons = (attempt: number): ErrorReason[] => [
  ErrorReason.CANCELLED,
  ...uncalledReasons,
  ...(attempt < attemptsMax ? transientReasons : []),
];

/**
 * How long to wait behind the failed attempt of this number (from 1), in milliseconds: doubling, a half of it chance (`random` in
 * [0, 1)), and not before the upstream says.
 */
export function backoffMs(attempt: number, random: number, retryAfterMs = 0): number {
  const wait = Math.min(backoffMsFirst * 2 ** (attempt - 1), backoffMsMax);
  return Math.max(wait * (0.5 + random / 2), Math.min(retryAfterMs, backoffMsMax));
}
