import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';

/*
 * What an organization may have at the same time (README.md, Limits). It may be exceeded by the jobs of a second, and by the results of
 * those that run.
 */

/** Jobs that wait for a worker, and the bytes of their requests. */
export const waitingJobsMax = 10_000;
export const waitingBytesMax = 5 * 1024 ** 3;

/** The bytes of the results that are kept. While they are as many, the jobs that wait go on waiting. */
export const keptBytesMax = 5 * 1024 ** 3;

/** How long whoever is refused should wait, in milliseconds: the queue moves all the time. */
const retryAfterMs = 30_000;

export const tooManyJobs = (): GatewayError =>
  gatewayError(
    ErrorReason.RATE_LIMITED,
    'Your organization has as many background jobs as it may: 10,000 that wait, with 5 GiB of requests, and 5 GiB of results that are kept. Try again later, or cancel or delete some.',
    { retryAfterMs },
  );
