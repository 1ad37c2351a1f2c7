/** How often a mail without an expiry is tried: over some two days. One with an expiry is tried until then. */
const attemptsMax = 20;

const waitMsMin = 10_000;
const waitMsMax = 4 * 3_600_000;

/** What to do after a failed try that may be repeated: the wait until the next one in milliseconds, or null to give up. */
export function retryAfterFailure({ attempts, expires }: { attempts: number; expires: boolean }): number | null {
  if (attempts >= attemptsMax && !expires) return null;
  return Math.min(waitMsMax, waitMsMin * 2 ** (attempts - 1));
}

/** What a failed try says: the mail server's answer, if there was one, and the command that it answered. */
export type SendingError = Error & { responseCode?: number; command?: string };

/**
 * Whether the mail server refused this mail for good: by a 5yz (RFC 5321 section 4.2.1) to its recipient or its text. Whatever it
 * says of a connection, a login or the sender, it says of the gateway, which an operator can set right.
 */
export const isPermanentRefusal = ({ responseCode = 0, command }: SendingError): boolean =>
  (command === 'RCPT TO' || command === 'DATA') && responseCode >= 500 && responseCode < 600;
