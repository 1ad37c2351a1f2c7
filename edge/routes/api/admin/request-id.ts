import type { FastifyRequest } from 'fastify';
import { requestIdFor, uuidv7 } from '#shared/ids.ts';
import { idempotencyKey } from '../../../http/idempotency-key.ts';

/** The request_id of a movement of money: a repeat with the same Idempotency-Key has the same, however its URL is spelled. */
export function requestId(request: FastifyRequest): string {
  const key = idempotencyKey(request);
  return key === '' ? uuidv7() : requestIdFor(request.principal!.userId, key);
}
