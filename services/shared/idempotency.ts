import { createHash } from 'node:crypto';
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { NIL } from 'uuid';
import { takeAdvisoryLock } from './db/advisory-lock.ts';
import { run, type StatementRunner } from './db/run.ts';
import { ErrorReason, type GatewayError, gatewayError } from './errors.ts';
import type { Caller } from './rpc/caller.ts';

/** How long an Idempotency-Key is honoured (decisions.md, Common), in milliseconds. */
export const idempotencyMs = 24 * 3_600_000;

/** The user of callers that are not users, such as the operators' command line. */
const nobody = NIL;

/** Whose request is done only once, and under which Idempotency-Key. */
type OnceCall<Request extends DescMessage> = {
  caller: Pick<Caller, 'userId'>;
  key: string;
  request: MessageShape<Request>;
  requestSchema: Request;
  nowMs: number;
};

/**
 * Does the work once per caller and Idempotency-Key, in the work's own transaction: a repeat gets the first answer; the same key with
 * another request fails with IDEMPOTENCY_KEY_REUSED. Without a key the work is simply done.
 */
export async function once<Request extends DescMessage, Response extends DescMessage>(
  tx: StatementRunner,
  call: OnceCall<Request> & { responseSchema: Response },
  work: () => Promise<MessageInitShape<Response>>,
): Promise<MessageShape<Response>> {
  const schema = call.responseSchema;
  return fromBinary(schema, await onceKept(tx, call, async () => toBinary(schema, create(schema, await work()))));
}

/**
 * Like `once`, for an answer that must not be kept, because it holds a secret or may change: a text is kept from which it can be made again.
 */
export async function onceNamed<Request extends DescMessage>(
  tx: StatementRunner,
  call: OnceCall<Request>,
  work: () => Promise<string>,
): Promise<string> {
  return Buffer.from(await onceKept(tx, call, async () => Buffer.from(await work()))).toString();
}

async function onceKept<Request extends DescMessage>(
  tx: StatementRunner,
  call: OnceCall<Request>,
  work: () => Promise<Uint8Array>,
): Promise<Uint8Array> {
  const { requestSchema, nowMs } = call;
  if (call.key === '') return work();
  const userId = call.caller.userId || nobody;
  // Not stored in clear text: what can be made again only with the key cannot be made by a reader of the table.
  const key = createHash('sha256').update(call.key).digest('hex');
  const requestHash = createHash('sha256')
    .update(requestSchema.typeName)
    .update(toBinary(requestSchema, call.request))
    .digest();
  const expired = new Date(nowMs - idempotencyMs);
  await takeAdvisoryLock(tx, `idempotency ${userId} ${key}`);
  const [kept] = await run<{ request_hash: Buffer; response: Buffer }>(
    tx,
    'select request_hash, response from idempotency_keys where user_id = ? and key = ? and created_at > ?',
    [userId, key, expired],
  );
  if (kept !== undefined) {
    if (!kept.request_hash.equals(requestHash)) throw idempotencyKeyReused();
    return kept.response;
  }
  const response = await work();
  // An expired one may still be there.
  await run(
    tx,
    `insert into idempotency_keys (user_id, key, request_hash, response, created_at) values (?, ?, ?, ?, ?)
     on conflict (user_id, key) do update
       set request_hash = excluded.request_hash, response = excluded.response, created_at = excluded.created_at`,
    [userId, key, requestHash, Buffer.from(response), new Date(nowMs)],
  );
  await forgetExpired(tx, nowMs);
  return response;
}

/** As many as one statement deletes in a few milliseconds, so that no request waits for a large backlog. */
const forgottenAtOnce = 1_000;

/** Forgets expired requests, a limited number at a time; returns whether there may be more. */
export async function forgetExpired(tx: StatementRunner, nowMs: number): Promise<boolean> {
  const forgotten = await run(
    tx,
    `delete from idempotency_keys where (user_id, key) in (
       select user_id, key from idempotency_keys where created_at <= ? order by created_at
       limit ${forgottenAtOnce} for update skip locked)
     returning user_id`,
    [new Date(nowMs - idempotencyMs)],
  );
  return forgotten.length === forgottenAtOnce;
}

export const idempotencyKeyReused = (): GatewayError =>
  gatewayError(
    ErrorReason.IDEMPOTENCY_KEY_REUSED,
    'This Idempotency-Key was already used with a different request. Use a new one.',
    { param: 'Idempotency-Key' },
  );
