import type { FastifyRequest } from 'fastify';
import { ErrorReason, gatewayError } from '#shared/errors.ts';

/**
 * Where a request comes from, as browsers tell it (Fetch Metadata; Origin, RFC 6454 section 7): a page of the gateway's own, a
 * foreign page, or no browser at all.
 */
export function askingPage(request: FastifyRequest, publicUrl: string): 'own' | 'foreign' | 'none' {
  const site = request.headers['sec-fetch-site'];
  const { origin } = request.headers;
  // Browsers send Sec-Fetch-Site only to trustworthy origins; on others Origin alone tells.
  if (site !== undefined && site !== 'same-origin') return site === 'none' && origin === undefined ? 'none' : 'foreign';
  if (site === 'same-origin') return 'own';
  if (origin === undefined) return 'none';
  return origin === new URL(publicUrl).origin || origin === `${request.protocol}://${request.host}` ? 'own' : 'foreign';
}

/** A cookie goes along with whatever page makes the request, so a foreign page's is refused (security.md, CSRF). */
export function refuseForeignPage(request: FastifyRequest, publicUrl: string): void {
  if (askingPage(request, publicUrl) === 'foreign') {
    throw gatewayError(ErrorReason.ENDPOINT_NOT_ALLOWED, 'This cookie is taken from pages of the gateway itself only.');
  }
}
