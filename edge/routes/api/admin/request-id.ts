import { createHash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { uuidOfHex, uuidv7 } from '#shared/ids.ts';
import { idempotencyKey } from '../../../http/idempotency-key.ts';

/**
 * The request_id of a movement of money, derived from the operator's Idempotency-Key where there is one: a repeat is then the same request
 * however its URL is spelled, and another movement with the same key is refused.
 */
export function requestId(request: FastifyRequest): string {
  const key = idempotencyKey(request);
  if (key === '') return uuidv7();
  const digest = createHash('sha256')
    .update(JSON.stringify([request.principal!.userId, key]))
    .digest('hex');
  return uuidOfHex(digest.slice(0, 32));
}
