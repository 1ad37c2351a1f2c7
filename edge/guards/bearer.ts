import type { IncomingMessage } from 'node:http';
import { ErrorReason, gatewayError } from '#shared/errors.ts';

const missing = (): Error =>
  gatewayError(
    ErrorReason.MISSING_API_KEY,
    'You did not send an API key. Send it in the Authorization header: `Authorization: Bearer YOUR_KEY`.',
  );

/**
 * The bearer token of a request (RFC 6750 section 2.1). No other carrier is read, and two Authorization headers are
 * refused: a proxy in front might have checked the other one.
 */
export function bearerToken(message: IncomingMessage): string {
  const header = message.headers.authorization;
  if (header === undefined || header === '') throw missing();
  if (header.length < 8 || header.slice(0, 7).toLowerCase() !== 'bearer ') throw missing();
  const token = header.slice(7).trim();
  if (token === '') throw missing();
  if (token.includes(' ') || token.includes(',') || occursTwice(message.rawHeaders)) {
    throw gatewayError(ErrorReason.INVALID_API_KEY, 'Send exactly one Authorization header with one bearer token.');
  }
  return token;
}

/** Node keeps the first of two Authorization headers in silence; the raw list shows both. Names stand at even places. */
function occursTwice(rawHeaders: readonly string[]): boolean {
  let seen = false;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (name.length !== 13 || name.toLowerCase() !== 'authorization') continue;
    if (seen) return true;
    seen = true;
  }
  return false;
}
