import { expect, test } from 'vitest';
import { isPermanentRefusal } from './mail-retry.ts';

/** Whether a mail is given up for this answer to RCPT TO. Postfix answers nothing before it, whatever it refuses. */
const isGivenUp = (response: string): boolean =>
  isPermanentRefusal(
    Object.assign(new Error(), { command: 'RCPT TO', response, responseCode: Number(response.slice(0, 3)) }),
  );

test.each([
  '550 5.1.1 <gone@acme.example>: Recipient address rejected: User unknown in relay recipient table',
  '550 5.1.1 <gone@relay.example>: Recipient address rejected: User unknown in virtual mailbox table',
  '550-5.1.1 The email account that you tried to reach does not exist. ab12.34 - gsmtp',
  '550 5.1.1 <gone@acme.example>... User unknown (mx-relay.acme.example)',
  '550 <gone@relay.acme.example>: no such user; mx-relay.acme.example',
  '554 5.7.1 <reader@acme.example>: Recipient address rejected: Access denied',
  '550 <gone@acme.example>: no such user here (5.4.5.12)',
])('a mail whose recipient is refused is given up: %s', (response) => {
  expect(isGivenUp(response)).toBe(true);
});

test.each([
  '554 5.7.1 <reader@acme.example>: Relay access denied',
  '550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain',
  '550 5.7.1 Unable to relay.',
  '552-5.4.5 Daily sending quota exceeded',
  '550 relay not permitted',
  '550 5.7.1 <reader@acme.example>... Relaying denied',
  '553 5.7.1 <no-reply@gateway.example>: Sender address rejected: not owned by user gateway',
  '550 5.1.8 <no-reply@gateway.example>: Sender address rejected: Domain not found',
  '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org',
  '554 5.7.1 <unknown[192.0.2.1]>: Client host rejected: Access denied',
  '504 5.5.2 <gateway>: Helo command rejected: need fully-qualified hostname',
])('a mail is kept for what an operator can correct: %s', (response) => {
  expect(isGivenUp(response)).toBe(false);
});
