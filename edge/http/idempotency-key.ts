import type { FastifyRequest } from 'fastify';
import { invalidRequest } from '#shared/errors.ts';

/** The Idempotency-Key of a request; empty when there is none. */
export function idempotencyKey(request: FastifyRequest): string {
  const value = request.headers['idempotency-key'];
  if (value === undefined) return '';
  if (typeof value !== 'string' || value.length > 255 || !/^[\x21-\x7e]+$/.test(value)) {
    throw invalidRequest('Idempotency-Key', 'Idempotency-Key must be 1 to 255 visible ASCII characters.');
  }
  return value;
}
