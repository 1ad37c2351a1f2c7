import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';

/*
 * What an organization may have at the same time (README.md, Limits). It may be exceeded by the jobs of a second, and by the results of
 * those that are running.
 */

/** Jobs that wait for a worker, and the bytes of their requests. */
export const waitingJobsMax = 10_000;
export const waitingBytesMax = 5 * 1024 ** 3;

/** The total bytes of results kept, and of the metadata of ended jobs. At this size, waiting jobs go on waiting. */
export const keptBytesMax = 5 * 1024 ** 3;

/** How long a refused caller should wait, in milliseconds: the queue moves all the time. */
const retryAfterMs = 30_000;

export const tooManyJobs = (): GatewayError =>
  gatewayError(
    ErrorReason.RATE_LIMITED,
    'Your organization has reached its limit for background jobs: 10,000 waiting jobs, 5 GiB of their requests, or 5 GiB of kept results. Try again later, or cancel or delete some jobs.',
    { retryAfterMs },
  );
