import { existsSync } from 'node:fs';
import { join } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

/**
 * What the portal's pages may do. No inline script, style or event handler anywhere, so that a name which somebody
 * typed can never become code; nothing is loaded from another origin.
 */
const portalContentSecurityPolicy: string = [
  "default-src 'self'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "media-src 'self' blob:",
  "connect-src 'self'",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ');

const pageHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': portalContentSecurityPolicy,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'same-origin',
  'permissions-policy': 'microphone=(self), camera=(), geolocation=()',
  'cross-origin-opener-policy': 'same-origin',
};

/**
 * Serves the built portal from `directory`: its files with hashed names for a year, and `index.html` for every page
 * address, so that deep links work. `isPortalPath` says which addresses are pages of the portal and not of the API.
 */
export async function servePortal(app: FastifyInstance, directory: string): Promise<void> {
  if (!existsSync(join(directory, 'index.html'))) return;
  await app.register(fastifyStatic, {
    root: directory,
    prefix: '/',
    wildcard: false,
    index: false,
    dotfiles: 'ignore',
    cacheControl: false,
    setHeaders: (reply, path) => {
      for (const [name, value] of Object.entries(pageHeaders)) reply.header(name, value);
      const immutable = path.includes('/assets/');
      reply.header('cache-control', immutable ? 'public, max-age=31536000, immutable' : 'no-cache');
    },
  });
}

/** Whether an unknown address should answer the portal's page instead of the API's 404: `/` always, others to browsers. */
export function isPortalPath(request: FastifyRequest): boolean {
  if (request.method !== 'GET' && request.method !== 'HEAD') return false;
  const path = request.url.split('?', 1)[0]!;
  if (path === '/') return true;
  if (/^\/(v1|api|assets|retirements|metrics|healthz|readyz|\.well-known)(\/|$)/.test(path)) return false;
  return (request.headers.accept ?? '').includes('text/html');
}

/** Answers `index.html`, whatever the address: the portal's own router reads it. */
export function sendPortalPage(reply: FastifyReply): FastifyReply {
  return reply.code(200).type('text/html; charset=utf-8').sendFile('index.html', { cacheControl: false });
}
