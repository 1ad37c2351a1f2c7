import type { FastifyRequest } from 'fastify';
import { ErrorReason, gatewayError } from '#shared/errors.ts';

/**
 * Which page a request comes from, as browsers say (Fetch Metadata; Origin, RFC 6454 section 7): one of the gateway's own, a foreign one,
 * or no browser at all.
 */
export function askingPage(request: FastifyRequest, publicUrl: string): 'own' | 'foreign' | 'none' {
  const site = request.headers['sec-fetch-site'];
  const { origin } = request.headers;
  // Browsers send Sec-Fetch-Site only to trustworthy origins; to others, only Origin tells.
  if (site !== undefined && site !== 'same-origin') return site === 'none' && origin === undefined ? 'none' : 'foreign';
  if (site === 'same-origin') return 'own';
  if (origin === undefined) return 'none';
  return origin === new URL(publicUrl).origin || origin === `${request.protocol}://${request.host}` ? 'own' : 'foreign';
}

/** Browsers send a cookie whichever page makes the request, so a foreign page's request is refused (security.md, CSRF). */
export function refuseForeignPage(request: FastifyRequest, publicUrl: string): void {
  if (askingPage(request, publicUrl) === 'foreign') {
    throw gatewayError(
      ErrorReason.ENDPOINT_NOT_ALLOWED,
      'The refresh cookie is only accepted from the pages of the gateway itself.',
    );
  }
}
