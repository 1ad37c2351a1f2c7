import { hourMs, waitMs } from './mail-limits.ts';

/** How long a mailed link for another address works, in milliseconds. */
export const emailChangeLifetimeMs = 3_600_000;

/** The most requests of one user within an hour: each sends a mail in the platform's name, to any address. */
export const hourlyEmailChangesMax = 5;

/** A user may ask once in this time, in milliseconds. */
const emailChangeIntervalMs = 60_000;

/**
 * How long until a user may ask again for another address, in milliseconds; not positive when they may now. `latest` are their last
 * `hourlyEmailChangesMax` requests, newest first.
 */
export const emailChangeWaitMs = (latest: readonly { createdAt: Date }[], nowMs: number): number =>
  Math.max(waitMs(latest[0], emailChangeIntervalMs, nowMs), waitMs(latest[hourlyEmailChangesMax - 1], hourMs, nowMs));
