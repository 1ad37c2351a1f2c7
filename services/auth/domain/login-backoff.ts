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
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(ip);
  if (mapped !== null) return mapped[1]!;
  if (!ip.includes(':')) return ip;
  const [head, tail] = ip.split('::') as [string, string | undefined];
  const before = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: Math.max(0, 8 - before.length - after.length) }, () => '0');
  return [...before, ...(tail === undefined ? [] : zeros), ...after]
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':');
}
