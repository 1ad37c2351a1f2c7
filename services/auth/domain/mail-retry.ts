/** How often a mail without an expiry is tried: over some two days. A mail with an expiry is tried until then. */
const attemptsMax = 20;

const waitMsMin = 10_000;
const waitMsMax = 4 * 3_600_000;

/** What to do after a failed attempt that may be repeated: how long to wait, in milliseconds, or null to give up. */
export function retryAfterFailure({ attempts, expires }: { attempts: number; expires: boolean }): number | null {
  if (attempts >= attemptsMax && !expires) return null;
  return Math.min(waitMsMax, waitMsMin * 2 ** (attempts - 1));
}

/** The error of a failed attempt: the mail server's answer, if there was one, and the command that it answered. */
export type SendingError = Error & { responseCode?: number; command?: string };

/**
 * Whether the mail server refused this mail for good: by a 5yz (RFC 5321 section 4.2.1) about its recipient or its text. Refusals of a
 * connection, a login or the sender are about the gateway, and an operator can correct them.
 */
export const isPermanentRefusal = ({ responseCode = 0, command }: SendingError): boolean =>
  (command === 'RCPT TO' || command === 'DATA') && responseCode >= 500 && responseCode < 600;
