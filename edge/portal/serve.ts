import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

/**
 * What the portal's pages may do. There is no inline script, style or event handler anywhere, so a name that somebody typed can never
 * become code; nothing is loaded from another origin.
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

/** The content types of the built portal's files. */
const contentTypes: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Answers with one file of the portal, or with 304 if the client has it already. */
export type SendFile = (request: FastifyRequest, reply: FastifyReply) => FastifyReply;

/**
 * Serves the built portal from `directory` as it is now: a later build takes effect at the next start, and its files have other names.
 * Clients cache files with hashed names for a year. Those that take gzip get files compressed, which halves the wait for the first
 * page on a slow connection. Returns what sends `index.html`, which is the answer for every page address, so that deep links work.
 */
export function servePortal(app: FastifyInstance, directory: string): SendFile {
  const files = new Map(
    readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
      .map((entry) => {
        const file = join(entry.parentPath, entry.name);
        const path = `/${relative(directory, file).replaceAll(sep, '/')}`;
        return [path, sendFile(path, readFileSync(file))];
      }),
  );
  for (const [path, send] of files) app.get(path, send);
  return files.get('/index.html')!;
}

function sendFile(path: string, content: Buffer): SendFile {
  const type = contentTypes[extname(path)];
  if (type === undefined) throw new Error(`${path} of the portal has no content type`);
  // Not made of size and time: the files of container images often all have the same time.
  const hash = createHash('sha256').update(content).digest('base64url');
  const isNamedByHash = path.startsWith('/assets/');
  const headers = {
    ...pageHeaders,
    'cache-control': isNamedByHash ? 'public, max-age=31536000, immutable' : 'no-cache',
    vary: 'accept-encoding',
  };
  const plain = { content, headers: { ...headers, etag: `"${hash}"` } };
  const gzippedHeaders = { ...headers, etag: `"${hash}.gzip"`, 'content-encoding': 'gzip' };
  let gzipped: typeof plain | undefined;
  return (request, reply) => {
    let sent = plain;
    if (takesGzip(request.headers['accept-encoding'])) {
      gzipped ??= { content: gzipSync(content), headers: gzippedHeaders };
      sent = gzipped;
    }
    reply.headers(sent.headers);
    // A compressing proxy turns the etag into a weak one, hence `includes`.
    if (request.headers['if-none-match']?.includes(sent.headers.etag)) return reply.code(304).send();
    return reply.code(200).type(type).send(sent.content);
  };
}

const takesGzip = (accepted: string | string[] | undefined): boolean =>
  /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(String(accepted));

/** Whether an unknown address should get the portal's page instead of the API's 404: `/` always, other addresses if a browser asks. */
export function isPortalPath(request: FastifyRequest): boolean {
  if (request.method !== 'GET' && request.method !== 'HEAD') return false;
  const path = request.url.split('?', 1)[0]!;
  if (path === '/') return true;
  if (/^\/(v1|api|assets|retirements|metrics|healthz|readyz|\.well-known)(\/|$)/.test(path)) return false;
  return (request.headers.accept ?? '').includes('text/html');
}
