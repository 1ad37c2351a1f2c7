import { createHash } from 'node:crypto';
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { Clock } from './clock.ts';
import { ErrorReason, gatewayError } from './errors.ts';

/** For how long an answer is repeated (decisions.md, Common), in milliseconds. */
const idempotencyMs = 24 * 3_600_000;

/**
 * Does the work once per caller and Idempotency-Key, in the work's own transaction: a repeat gets the first answer, the same key with
 * another request fails with IDEMPOTENCY_KEY_REUSED. Without a key the work is simply done. Kept in the service's table idempotency_keys.
 */
export async function once<Request extends DescMessage, Response extends DescMessage>(
  em: SqlEntityManager,
  call: {
    userId: string;
    key: string;
    request: MessageShape<Request>;
    requestSchema: Request;
    responseSchema: Response;
    clock: Clock;
  },
  work: () => Promise<MessageInitShape<Response>>,
): Promise<MessageShape<Response>> {
  const { userId, key, clock, requestSchema, responseSchema } = call;
  if (key === '') return create(responseSchema, await work());
  await em.execute('select pg_advisory_xact_lock(hashtextextended(?, 0))', [`idempotency ${userId} ${key}`]);
  const fingerprint = createHash('sha256')
    .update(requestSchema.typeName)
    .update(toBinary(requestSchema, call.request))
    .digest();
  const [stored] = await em.execute<{ request_hash: Buffer; response: Buffer }[]>(
    'select request_hash, response from idempotency_keys where user_id = ? and key = ? and created_at > ?',
    [userId, key, new Date(clock.now() - idempotencyMs)],
  );
  if (stored !== undefined) {
    if (!stored.request_hash.equals(fingerprint)) {
      throw gatewayError(
        ErrorReason.IDEMPOTENCY_KEY_REUSED,
        'This Idempotency-Key was used before with another request.',
        { param: 'Idempotency-Key' },
      );
    }
    return fromBinary(responseSchema, stored.response);
  }
  const response = create(responseSchema, await work());
  await em.execute('delete from idempotency_keys where created_at <= ?', [new Date(clock.now() - idempotencyMs)]);
  await em.execute(
    `insert into idempotency_keys (user_id, key, request_hash, response, created_at) values (?, ?, ?, ?, ?)`,
    [userId, key, fingerprint, Buffer.from(toBinary(responseSchema, response)), new Date(clock.now())],
  );
  return response;
}
