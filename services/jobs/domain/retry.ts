import { ErrorReason, type GatewayError } from '#shared/errors.ts';

/** How often workers take a job at most, so that a job that kills its workers ends as well. */
export const attemptsMax = 6;

const backoffMsFirst = 1_000;
/** The longest that a job waits for its next attempt, in milliseconds. */
export const backoffMsMax = 60_000;

/** Faults that pass by themselves. All others would recur. */
const transientReasons: ReadonlySet<ErrorReason> = new Set([
  ErrorReason.UPSTREAM_ERROR,
  ErrorReason.UPSTREAM_TIMEOUT,
  // From an upstream: the job's own limits were counted at its submission.
  ErrorReason.RATE_LIMITED,
  ErrorReason.OVERLOADED,
]);

/** Nothing was called: no deployment of the model serves, or none has room. */
const uncalledReasons: ReadonlySet<ErrorReason> = new Set([ErrorReason.MODEL_UNAVAILABLE, ErrorReason.NO_CAPACITY]);

/** Whether the job waits for its model, which is no attempt. */
export const isUncalled = ({ reason }: GatewayError): boolean => uncalledReasons.has(reason);

/** Whether the job repeats its call after the failed attempt with this number (from 1). */
export const isRetried = ({ reason }: GatewayError, attempt: number): boolean =>
  attempt < attemptsMax && transientReasons.has(reason);

/**
 * The failures of the attempt with this number (from 1) that reports do not count: those after which the job repeats its call, and
 * CANCELLED. That is either the end of its worker, after which it repeats the call too, or the end of the job, which then neither failed
 * nor succeeded.
 */
export const unmeteredReasons = (attempt: number): ErrorReason[] => [
  ErrorReason.CANCELLED,
  ...uncalledReasons,
  ...(attempt < attemptsMax ? transientReasons : []),
];

/**
 * How long to wait after the failed attempt with this number (from 1), in milliseconds: doubling, half of it random (`random` in [0, 1)),
 * and not less than the upstream asks for.
 */
export function backoffMs(attempt: number, random: number, retryAfterMs = 0): number {
  const wait = Math.min(backoffMsFirst * 2 ** (attempt - 1), backoffMsMax);
  return Math.max(wait * (0.5 + random / 2), Math.min(retryAfterMs, backoffMsMax));
}
