import { createHmac } from 'node:crypto';
import type { KeyPepper } from '#shared/env/secrets.ts';
import { makeKeySecret } from '#shared/key-secret.ts';

/** Separates these derivations from the digests made with the same pepper. */
const purpose = 'modelgateway/keys/idempotent-secret/v1\0';

/**
 * A secret, derived so that a repeat under an Idempotency-Key can return it although it is not stored. HMAC-SHA-256 is a pseudorandom
 * function of its key, so 32 random bytes of salt give 256 random bits to anyone without the pepper. The salt is kept under such a key
 * alone, for 24 h; from then on nobody can derive the secret, operators included.
 */
export const derivedSecret = (salt: Uint8Array, pepper: KeyPepper): string =>
  makeKeySecret(createHmac('sha256', pepper.secret).update(purpose).update(salt).digest());
