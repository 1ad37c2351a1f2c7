import { clockDifferenceMsMax } from '#shared/clock.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';

/** The most invitations, and the most confirmations of new addresses, that an organization may have sent within an hour: to any address. */
export const hourlyMailsMax = 100;
/** The hour in milliseconds. What is older counts towards no limit. */
export const hourMs = 3_600_000;

/** An address is sent at most one such mail of an organization in this time, in milliseconds. */
const mailIntervalMs = 60_000;

/** What is dated later was sent before the clock was set back, and counts towards no limit. */
export const countedUntil = (nowMs: number): Date => new Date(nowMs + clockDifferenceMsMax);

type Sent = { createdAt: Date };

/** How long until so much time has passed since one was sent, in milliseconds; not positive when it has, or when none was sent. */
export const waitMs = (sent: Sent | undefined, afterMs: number, nowMs: number): number =>
  sent === undefined ? 0 : sent.createdAt.getTime() + afterMs - nowMs;

/**
 * Refuses a mail to an address that is one too many of its organization. `latest` are its last `hourlyMailsMax`, newest first, including
 * those used or withdrawn since: their mails were sent. `refusals` says so to the caller: to this address, or to any.
 *
 * @throws GatewayError RATE_LIMITED
 */
export function refuseFlood(
  latest: readonly (Sent & { email: string })[],
  email: string,
  nowMs: number,
  refusals: { toAddress: string; hourly: string },
): void {
  const addressMs = addressWaitMs(latest, email, nowMs);
  if (addressMs > 0) {
    throw gatewayError(ErrorReason.RATE_LIMITED, refusals.toAddress, { param: 'email', retryAfterMs: addressMs });
  }
  const hourlyMs = waitMs(latest[hourlyMailsMax - 1], hourMs, nowMs);
  if (hourlyMs > 0) throw gatewayError(ErrorReason.RATE_LIMITED, refusals.hourly, { retryAfterMs: hourlyMs });
}

/** How long until an address may be sent another such mail, in milliseconds; not positive when it may now. `latest` is newest first. */
export const addressWaitMs = (latest: readonly (Sent & { email: string })[], email: string, nowMs: number): number =>
  waitMs(
    latest.find((sent) => sent.email === email),
    mailIntervalMs,
    nowMs,
  );
