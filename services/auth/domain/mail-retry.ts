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
export type SendingError = Error & { responseCode?: number; response?: string; command?: string };

/**
 * Answers about the gateway that some servers give only to the recipient or the text: that it may send no more for now (RFC 3463 section
 * 3.5), that they do not relay for somebody who has not signed in, and, by Postfix, that they refuse its address, name or sender. Most have
 * no code of their own. An address or a host's name with 'relay' in it says nothing.
 */
const aboutGateway =
  /^\d{3}[ -]5\.4\.5\b|(?<![\w@.-])relay(ing)?(?![\w@-]|\.\w)|\b(sender address|helo command) rejected\b|\bclient host .*(rejected|blocked)\b/i;
/** Section 3.2 there: whatever the words, such as Postfix's "unknown in relay recipient table", the recipient's address is wrong. */
const aboutRecipient = /^\d{3}[ -]5\.1\.([1-6]|10)\b/;
/** Closing the connection, bad sequence of commands (RFC 5321 section 4.2.3); authentication required (RFC 4954 section 6). */
const codesAboutGateway: readonly number[] = [421, 503, 530];

/**
 * Whether the mail server answered about this mail, its recipient or its text. Any other failure concerns all mails: no answer, and the
 * refusal of a connection, a login, the sender or the amount of mail, which an operator can correct.
 */
export const isAboutMail = ({ responseCode, response = '', command }: SendingError): boolean =>
  (command === 'RCPT TO' || command === 'DATA') &&
  responseCode !== undefined &&
  !codesAboutGateway.includes(responseCode) &&
  (aboutRecipient.test(response) || !aboutGateway.test(response));

/** Whether the mail server refused this mail for good: by a 5yz (RFC 5321 section 4.2.1). */
export const isPermanentRefusal = (error: SendingError): boolean =>
  isAboutMail(error) && error.responseCode! >= 500 && error.responseCode! < 600;
