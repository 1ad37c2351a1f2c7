import type { IncomingMessage } from 'node:http';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { occursTwice } from '../http/headers.ts';

const missing = (): Error =>
  gatewayError(
    ErrorReason.MISSING_API_KEY,
    'You did not send an API key. Send it in the Authorization header: `Authorization: Bearer YOUR_KEY`.',
  );

/**
 * The bearer token of a request (RFC 6750 section 2.1). It is read from nowhere else, and two Authorization headers are refused: a proxy in
 * front might have checked the other one.
 */
export function bearerToken(message: IncomingMessage): string {
  const header = message.headers.authorization;
  if (header === undefined || header === '') throw missing();
  if (header.length < 8 || header.slice(0, 7).toLowerCase() !== 'bearer ') throw missing();
  const token = header.slice(7).trim();
  if (token === '') throw missing();
  if (token.includes(' ') || token.includes(',') || occursTwice('authorization', message.rawHeaders)) {
    throw gatewayError(ErrorReason.INVALID_API_KEY, 'Send exactly one Authorization header with one bearer token.');
  }
  return token;
}
