import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { KeyOwner } from './key.repository.ts';

/** How long a repeat under the same Idempotency-Key answers the same (decisions.md, Common). */
const keptMs = 24 * 60 * 60 * 1000;

/** What a POST under an Idempotency-Key made. */
export type IdempotentResult = {
  keyId: string;
  salt: Buffer;
  pepperVersion: number;
  previousSecretExpiresAt: Date | null;
};

type Row = {
  request_hash: Buffer;
  key_id: string;
  salt: Buffer;
  pepper_version: number;
  /** Milliseconds since the Unix epoch. */
  previous_ends_at: string | null;
};

/**
 * What an earlier request under the same key made; null when there was none in the last 24 h. The owner's row must be locked,
 * which lets two equal requests come one after the other. IDEMPOTENCY_KEY_REUSED when the earlier request was another.
 */
export async function findIdempotentResult(
  em: SqlEntityManager,
  { tenantId, userId }: KeyOwner,
  key: string,
  requestHash: Buffer,
  nowMs: number,
): Promise<IdempotentResult | null> {
  await em.execute('delete from idempotency_keys where tenant_id = ? and user_id = ? and key = ? and created_at <= ?', [
    tenantId,
    userId,
    key,
    new Date(nowMs - keptMs),
  ]);
  const [row] = await em.execute<Row[]>(
    `select request_hash, key_id, salt, pepper_version,
       (extract(epoch from previous_secret_expires_at) * 1000)::bigint as previous_ends_at
     from idempotency_keys where tenant_id = ? and user_id = ? and key = ?`,
    [tenantId, userId, key],
  );
  if (row === undefined) return null;
  if (!row.request_hash.equals(requestHash)) {
    throw gatewayError(
      ErrorReason.IDEMPOTENCY_KEY_REUSED,
      'This Idempotency-Key was used before with another request. Use a new one.',
      { param: 'Idempotency-Key' },
    );
  }
  return {
    keyId: row.key_id,
    salt: row.salt,
    pepperVersion: row.pepper_version,
    previousSecretExpiresAt: row.previous_ends_at === null ? null : new Date(Number(row.previous_ends_at)),
  };
}

/** Remembers what a request made. */
export async function keepIdempotentResult(
  em: SqlEntityManager,
  { tenantId, userId }: KeyOwner,
  key: string,
  requestHash: Buffer,
  result: IdempotentResult,
  nowMs: number,
): Promise<void> {
  await em.execute(
    `insert into idempotency_keys
       (tenant_id, user_id, key, request_hash, key_id, salt, pepper_version, previous_secret_expires_at, created_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [
      tenantId,
      userId,
      key,
      requestHash,
      result.keyId,
      result.salt,
      result.pepperVersion,
      result.previousSecretExpiresAt,
      new Date(nowMs),
    ],
  );
}
