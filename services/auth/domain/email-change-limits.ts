/** How long a mailed link for another address works, in milliseconds. */
export const emailChangeLifetimeMs = 3_600_000;

/** The most requests of one user within an hour: each sends a mail in the platform's name, to any address. */
export const hourlyEmailChangesMax = 5;
const hourMs = 3_600_000;

/** The most of all users of an organization within an hour: each may have made any number of users, to whom it is the same. */
export const hourlyEmailChangesOfAllMax = 100;

/** A user may ask once in this time, and their organization for one address, in milliseconds. */
const emailChangeIntervalMs = 60_000;

/**
 * How long until a user may ask again for another address, in milliseconds; not positive when they may now. `latest` are their last
 * `hourlyEmailChangesMax` requests, newest first.
 */
export function emailChangeWaitMs(latest: readonly Asked[], nowMs: number): number {
  return Math.max(
    waitMs(latest[0], emailChangeIntervalMs, nowMs),
    waitMs(latest[hourlyEmailChangesMax - 1], hourMs, nowMs),
  );
}

/** The same for any user of an organization, whose last `hourlyEmailChangesOfAllMax` requests these are. */
export const emailChangeOfAllWaitMs = (latest: readonly Asked[], nowMs: number): number =>
  waitMs(latest[hourlyEmailChangesOfAllMax - 1], hourMs, nowMs);

/** The same for this new address. */
export const newAddressWaitMs = (
  latest: readonly (Asked & { email: string })[],
  email: string,
  nowMs: number,
): number =>
  waitMs(
    latest.find((asked) => asked.email === email),
    emailChangeIntervalMs,
    nowMs,
  );

type Asked = { createdAt: Date };

const waitMs = (asked: Asked | undefined, afterMs: number, nowMs: number): number =>
  asked === undefined ? 0 : asked.createdAt.getTime() + afterMs - nowMs;
