import { parseAddress } from '#shared/cidr.ts';

/** When failed logins begin to cost time, and how much. */
export type BackoffPolicy = {
  /** So many failures are free. */
  freeFailures: number;
  /** The wait after the first one that is not, doubled by each further one, in milliseconds. */
  waitMsMin: number;
  waitMsMax: number;
  /** After so long without a failure they are forgotten, in milliseconds. */
  forgetAfterMs: number;
};

/**
 * Of one account, by addresses from which its owner has not signed in before. The longest wait is short: whoever guesses on
 * can slow the owner down, and not lock them out; ten guesses a quarter of an hour are worth nothing against the password rule.
 */
export const accountBackoff: BackoffPolicy = {
  freeFailures: 5,
  waitMsMin: 1_000,
  waitMsMax: 60_000,
  forgetAfterMs: 15 * 60_000,
};

/** Of one address, whatever the accounts: an office may share it, a guesser has many of them. */
export const addressBackoff: BackoffPolicy = {
  freeFailures: 20,
  waitMsMin: 1_000,
  waitMsMax: 15 * 60_000,
  forgetAfterMs: 15 * 60_000,
};

/**
 * What of an address counts as one source: an IPv4 address whole, of an IPv6 address the first 64 bits, since the rest is the
 * guesser's to choose (RFC 4291 section 2.5.4).
 */
export function addressSource(ip: string): string {
  // The system adds a zone to link-local peers.
  const address = parseAddress(ip.replace(/%.*$/, ''));
  if (address === null) return ip;
  if (typeof address === 'number') return [24, 16, 8, 0].map((bits) => (address >>> bits) & 0xff).join('.');
  return address
    .slice(0, 2)
    .flatMap((word) => [word >>> 16, word & 0xffff])
    .map((group) => group.toString(16))
    .join(':');
}
