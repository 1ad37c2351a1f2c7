import { parseAddress } from '#shared/cidr.ts';

/** When failed logins start to cause waiting, and how much. */
export type BackoffPolicy = {
  /** How many failures cause no wait. */
  freeFailures: number;
  /** The wait after the first one beyond that, in milliseconds; each further failure doubles it. */
  waitMsMin: number;
  waitMsMax: number;
  /** Failures are forgotten after this long without another one, in milliseconds. */
  forgetAfterMs: number;
};

/**
 * For one account, from addresses where its owner has not signed in before. The longest wait is short: somebody who keeps guessing can slow
 * down the owner, but not lock them out; ten guesses per quarter of an hour are useless against the password rule.
 */
export const accountBackoff: BackoffPolicy = {
  freeFailures: 5,
  waitMsMin: 1_000,
  waitMsMax: 60_000,
  forgetAfterMs: 15 * 60_000,
};

/** For one address, whatever the accounts: an office may share it, and somebody guessing tries many accounts. */
export const addressBackoff: BackoffPolicy = {
  freeFailures: 20,
  waitMsMin: 1_000,
  waitMsMax: 15 * 60_000,
  forgetAfterMs: 15 * 60_000,
};

/**
 * The part of an address that counts as one source: an IPv4 address as a whole, the first 64 bits of an IPv6 address, since its owner
 * chooses the rest (RFC 4291 section 2.5.4).
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
