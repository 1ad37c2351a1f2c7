import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { KeyPepper } from '#shared/env.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { IdempotentResult } from '../db/idempotency.ts';
import { KeyEntity, type KeyRow } from '../db/key.entity.ts';
import type { KeyOwner } from '../db/key.repository.ts';
import { derivedSecret } from '../domain/derived-secret.ts';

/** The key and the secret which an earlier request under the same Idempotency-Key made. CONFLICT when they are gone since. */
export async function secretOfEarlierRequest(
  em: SqlEntityManager,
  { tenantId, userId }: KeyOwner,
  earlier: IdempotentResult,
  peppers: readonly KeyPepper[],
): Promise<{ key: KeyRow; secret: string }> {
  const key = await em.findOne(KeyEntity, { tenantId, id: earlier.keyId, userId, deletedAt: null });
  const pepper = peppers.find(({ version }) => version === earlier.pepperVersion);
  if (key === null || pepper === undefined) {
    throw gatewayError(
      ErrorReason.CONFLICT,
      'What this Idempotency-Key made before no longer exists. Use a new one to make another.',
    );
  }
  return { key, secret: derivedSecret(earlier.salt, pepper) };
}
