import type { IncomingMessage } from 'node:http';
import { randomHex } from '#shared/ids.ts';

/** The value of a new `x-request-id`, which every answer has. */
export const newRequestId = (): string => `req_${randomHex()}`;

/**
 * Whether a header, named in lower case, stands in a request twice. Node keeps the first of two in silence, where a proxy in front may
 * have gone by the other; the raw list shows both. Names stand at even places.
 */
export function occursTwice(name: string, rawHeaders: readonly string[]): boolean {
  let seen = false;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const given = rawHeaders[index]!;
    if (given.length !== name.length || given.toLowerCase() !== name) continue;
    if (seen) return true;
    seen = true;
  }
  return false;
}

/** A name or an address, and perhaps a port (RFC 3986 section 3.2). */
const hostShape = /^(?:\[[\w:.%-]+\]|[\w.~!$&'()*+,;=%-]*)(?::\d*)?$/;

/** What the parser lets through of a head that is to be refused with 400, in words for the client; null when nothing is wrong. */
export function headProblem({ headers: { host }, httpVersion, rawHeaders }: IncomingMessage): string | null {
  // HTTP/1.0 knows no Host (RFC 9112 section 3.2).
  if (host === undefined && httpVersion !== '1.0') return 'The request has no Host header.';
  if (occursTwice('host', rawHeaders)) return 'The request has two Host headers.';
  if (host !== undefined && !hostShape.test(host)) return 'The Host header is not the name of a host.';
  return occursTwice('content-type', rawHeaders) ? 'The request has two Content-Type headers.' : null;
}

/** Headers which browsers may read across origins (openai-contract.md section 1); a text, since a list would be joined for each answer. */
export const exposedHeaders: string = [
  'x-request-id',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  'deprecation',
  'sunset',
  'link',
  ...['limit', 'remaining', 'reset'].flatMap((word) => [`x-ratelimit-${word}-requests`, `x-ratelimit-${word}-tokens`]),
].join(', ');
