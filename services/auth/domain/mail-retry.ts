/** How often a mail is tried at all: over some two days. */
export const attemptsMax = 20;

const waitMsMin = 10_000;
const waitMsMax = 4 * 3_600_000;

/** What to do after a failed try: the wait until the next one in milliseconds, or null to give up. */
export function retryAfterFailure(attempts: number, isPermanent: boolean): number | null {
  if (isPermanent || attempts >= attemptsMax) return null;
  return Math.min(waitMsMax, waitMsMin * 2 ** (attempts - 1));
}

/** A mail server's 5yz refuses for good, its 4yz for now (RFC 5321 section 4.2.1); without an answer nothing is known. */
export const isPermanentRefusal = (responseCode: number | undefined): boolean =>
  responseCode !== undefined && responseCode >= 500 && responseCode < 600;
