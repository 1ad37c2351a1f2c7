import type { IncomingMessage } from 'node:http';
import { ErrorReason, type GatewayError, gatewayError, invalidRequest } from '#shared/errors.ts';
import { prefixedId } from '#shared/ids.ts';

/** The value of a new `x-request-id`; every answer has one. */
export const newRequestId = (): string => prefixedId('req_');

/**
 * Whether a header, named in lower case, occurs twice in a request. Node silently keeps the first of the two, where a proxy in front may
 * have used the other; the raw list shows both. Names are at even places.
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

/** A name or an address, optionally with a port (RFC 3986 section 3.2). */
const hostShape = /^(?:\[[\w:.%-]+\]|[\w.~!$&'()*+,;=%-]*)(?::\d*)?$/;

/** The methods that at least one endpoint has. */
export const endpointMethods: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
]);

/** The refusal of a method that no endpoint has (RFC 9110 section 9.1); one that only other endpoints have gets a 405. */
export const unknownMethod = (method: string): GatewayError =>
  gatewayError(
    ErrorReason.UNSUPPORTED_HTTP,
    `${method} is not supported here; use ${[...endpointMethods].join(', ')}.`,
    {
      code: 'method_not_supported',
    },
  );

/** Checks what the parser lets through but the gateway does not: the error to answer, or null when nothing is wrong. */
export function headProblem({ headers, httpVersion, method, rawHeaders }: IncomingMessage): GatewayError | null {
  if (!endpointMethods.has(method!)) return unknownMethod(method!);
  const { host, 'transfer-encoding': coding } = headers;
  // HTTP/1.0 has no Host (RFC 9112 section 3.2) and no Transfer-Encoding: an intermediary may have read such a body's length differently
  // (section 6.1).
  if (host === undefined && httpVersion !== '1.0') return notValid('The request has no Host header.');
  if (coding !== undefined && httpVersion === '1.0')
    return notValid('An HTTP/1.0 request cannot have a Transfer-Encoding.');
  // The parser looks at the last coding only; bytes that an unread earlier coding left would be taken for the body.
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') return unknownCoding();
  if (occursTwice('host', rawHeaders)) return notValid('The request has more than one Host header.');
  if (host !== undefined && !hostShape.test(host)) return notValid('The Host header is not a valid host name.');
  return occursTwice('content-type', rawHeaders)
    ? notValid('The request has more than one Content-Type header.')
    : null;
}

const notValid = (message: string): GatewayError => invalidRequest(undefined, message);

const unknownCoding = (): GatewayError =>
  gatewayError(
    ErrorReason.UNSUPPORTED_HTTP,
    'This Transfer-Encoding is not supported. Send the body with a Content-Length, or with `chunked` alone.',
  );

/**
 * Headers that browsers may read across origins (openai-contract.md section 1); one string, since a list would be joined for each answer.
 */
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
