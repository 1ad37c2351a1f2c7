import { createHmac } from 'node:crypto';
import type { KeyPepper } from '#shared/env.ts';

/** Keeps it apart from digests and derived secrets, which are made with the same pepper. */
const purpose = 'modelgateway/keys/pepper-fingerprint/v1\0';

/** By what a pepper is recognized by whoever does not have it: HMAC-SHA-256, 32 bytes. */
export const pepperFingerprint = (pepper: KeyPepper): Buffer =>
  createHmac('sha256', pepper.secret).update(purpose).digest();
