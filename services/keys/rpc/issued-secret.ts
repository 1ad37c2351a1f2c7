import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { KeyPepper } from '#shared/env.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { KeyEntity, type KeyRow } from '../db/key.entity.ts';
import type { KeyOwner } from '../db/key.repository.ts';
import { derivedSecret } from '../domain/derived-secret.ts';

/** What of a new secret is kept under an Idempotency-Key: by it and the pepper the secret can be answered again. */
type IssuedSecret = { keyId: string; salt: string; pepperVersion: number; previousEndsAtMs: number | null };

/** Names a secret that was made for a key; those before it are valid until `previousEndsAt`, or no longer. */
export const secretName = (key: KeyRow, salt: Buffer, pepper: KeyPepper, previousEndsAt: Date | null): string =>
  JSON.stringify({
    keyId: key.id,
    salt: salt.toString('hex'),
    pepperVersion: pepper.version,
    previousEndsAtMs: previousEndsAt?.getTime() ?? null,
  } satisfies IssuedSecret);

/** The key and the secret of this name, made now or by an earlier request. CONFLICT when they are gone since. */
export async function namedSecret(
  em: SqlEntityManager,
  { tenantId, userId }: KeyOwner,
  name: string,
  peppers: readonly KeyPepper[],
): Promise<{ key: KeyRow; secret: string; previousEndsAt: Date | null }> {
  const { keyId, salt, pepperVersion, previousEndsAtMs } = JSON.parse(name) as IssuedSecret;
  const key = await em.findOne(KeyEntity, { tenantId, id: keyId, userId, deletedAt: null });
  const pepper = peppers.find(({ version }) => version === pepperVersion);
  if (key === null || pepper === undefined) {
    throw gatewayError(
      ErrorReason.CONFLICT,
      'What this Idempotency-Key made before no longer exists. Use a new one to make another.',
    );
  }
  return {
    key,
    secret: derivedSecret(Buffer.from(salt, 'hex'), pepper),
    previousEndsAt: previousEndsAtMs === null ? null : new Date(previousEndsAtMs),
  };
}
