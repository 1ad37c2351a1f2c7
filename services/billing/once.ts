import { createHash } from 'node:crypto';
import { type DescMessage, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import type { Sql } from './db/sql.ts';

/** For how long a result is kept (decisions.md, Common), in milliseconds. */
const keptMs = 24 * 3_600_000;

/** Callers who are no users, such as the operators' command line. */
const nobody = '00000000-0000-0000-0000-000000000000';

/**
 * Does the work once per caller and Idempotency-Key, in the work's own transaction, and keeps the text that names its result: a repeat
 * gets that, and the same key with another request IDEMPOTENCY_KEY_REUSED. Without a key the work is simply done. The key itself is
 * not kept, only what it hashes to.
 */
export async function once<Schema extends DescMessage>(
  sql: Sql,
  call: { caller: Caller; key: string; schema: Schema; request: MessageShape<Schema>; nowMs: number },
  work: () => Promise<string>,
): Promise<string> {
  const { caller, schema, request, nowMs } = call;
  if (call.key === '') return work();
  const userId = caller.userId || nobody;
  const key = createHash('sha256').update(call.key).digest('hex');
  const requestHash = createHash('sha256').update(schema.typeName).update(toBinary(schema, request)).digest();
  await sql.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`billing ${userId} ${key}`]);
  const { rows } = await sql.query<{ request_hash: Buffer; response: Buffer }>({
    text: 'select request_hash, response from idempotency_keys where user_id = $1 and key = $2 and created_at > $3',
    values: [userId, key, new Date(nowMs - keptMs)],
  });
  if (rows[0] !== undefined) {
    if (rows[0].request_hash.equals(requestHash)) return rows[0].response.toString('utf8');
    throw gatewayError(
      ErrorReason.IDEMPOTENCY_KEY_REUSED,
      'This Idempotency-Key was used before with another request. Use a new one.',
      { param: 'Idempotency-Key' },
    );
  }
  const result = await work();
  await sql.query('delete from idempotency_keys where created_at <= $1', [new Date(nowMs - keptMs)]);
  await sql.query({
    text: `insert into idempotency_keys (user_id, key, request_hash, response, created_at) values ($1, $2, $3, $4, $5)`,
    values: [userId, key, requestHash, Buffer.from(result), new Date(nowMs)],
  });
  return result;
}
