import { randomBytes } from 'node:crypto';
import { tokenHash } from './session-tokens.ts';

/** A token that is mailed once and stored as a hash: 256 random bits in base64url. */
export function newOneTimeToken(): { token: string; hash: Buffer } {
  const token = randomBytes(32).toString('base64url');
  return { token, hash: tokenHash(token) };
}

/** A mail's link to a page of the portal. Its base comes from the configuration, never from the Host of a request. */
export const linkWithToken = (publicUrl: string, path: string, token: string): string =>
  `${publicUrl}${path}?${new URLSearchParams({ token })}`;
