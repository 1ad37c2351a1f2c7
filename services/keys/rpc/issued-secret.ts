import { randomBytes } from 'node:crypto';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { KeyPepper } from '#shared/env/secrets.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { keyDigest } from '#shared/key-secret.ts';
import { DigestEntity } from '../db/digest.entity.ts';
import { isLiveSecret } from '../db/digests.ts';
import { KeyEntity, type KeyRow } from '../db/key.entity.ts';
import type { KeyOwner } from '../db/key.repository.ts';
import { notePepper } from '../db/peppers.ts';
import { derivedSecret } from '../domain/derived-secret.ts';

/** A new secret, and what it was derived from. */
type MadeSecret = { secret: string; salt: Buffer; pepper: KeyPepper };

export function makeSecret(peppers: readonly KeyPepper[]): MadeSecret {
  const [pepper, salt] = [peppers[0]!, randomBytes(32)];
  return { secret: derivedSecret(salt, pepper), salt, pepper };
}

/** Lets a secret open a key. */
export async function addSecret(
  em: SqlEntityManager,
  { tenantId, id: keyId }: KeyRow,
  { secret, pepper }: MadeSecret,
  nowMs: number,
): Promise<void> {
  await notePepper(em, pepper);
  em.create(DigestEntity, {
    tenantId,
    keyId,
    digest: keyDigest(secret, pepper),
    pepperVersion: pepper.version,
    createdAt: new Date(nowMs),
    expiresAt: null,
    preview: null,
  });
}

/** What is kept of a new secret under an Idempotency-Key: with it and the pepper the secret can be returned again. */
type IssuedSecret = { keyId: string; salt: string; pepperVersion: number; previousEndsAtMs: number | null };

/** The name of a secret made for a key; earlier ones are valid until `previousEndsAt`, or end at once. */
export const secretName = (key: KeyRow, { salt, pepper }: MadeSecret, previousEndsAt: Date | null): string =>
  JSON.stringify({
    keyId: key.id,
    salt: salt.toString('hex'),
    pepperVersion: pepper.version,
    previousEndsAtMs: previousEndsAt?.getTime() ?? null,
  } satisfies IssuedSecret);

/** The key and the secret with this name, made now or by an earlier request. CONFLICT when they no longer exist. */
export async function namedSecret(
  em: SqlEntityManager,
  { tenantId, userId }: KeyOwner,
  name: string,
  peppers: readonly KeyPepper[],
  nowMs: number,
): Promise<{ key: KeyRow; secret: string; previousEndsAt: Date | null }> {
  const { keyId, salt, pepperVersion, previousEndsAtMs } = JSON.parse(name) as IssuedSecret;
  const key = await em.findOne(KeyEntity, { tenantId, id: keyId, userId, deletedAt: null });
  const pepper = peppers.find(({ version }) => version === pepperVersion);
  if (key === null || pepper === undefined) throw gone();
  const secret = derivedSecret(Buffer.from(salt, 'hex'), pepper);
  // It may have been rotated away, or its key revoked: a repeat would return a secret that opens nothing.
  if (!(await isLiveSecret(em, key, keyDigest(secret, pepper), new Date(nowMs)))) throw gone();
  return {
    key,
    secret,
    previousEndsAt: previousEndsAtMs === null ? null : new Date(previousEndsAtMs),
  };
}

const gone = () =>
  gatewayError(
    ErrorReason.CONFLICT,
    'What was created with this Idempotency-Key no longer exists. Use a new one to create another.',
  );
