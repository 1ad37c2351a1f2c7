import { createHmac } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { KeyPepper } from './env/secrets.ts';

/*
 * The secret of an API key: `sk-proj-`, 43 base62 digits with 256 random bits, and 6 base62 digits with a CRC-32 of everything before them.
 * The checksum lets a mistyped or invented key be refused without a look-up.
 */

const prefix = 'sk-proj-';
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const randomDigits = 43;
const checksumDigits = 6;
const secretLength = prefix.length + randomDigits + checksumDigits;
const shape = /^sk-proj-[0-9A-Za-z]{49}$/;

/** Makes a secret from 32 random bytes. */
export function makeKeySecret(random: Uint8Array): string {
  if (random.length !== 32) throw new RangeError('a key secret is made from 32 random bytes');
  const body = prefix + base62(BigInt(`0x${Buffer.from(random).toString('hex')}`), randomDigits);
  return body + checksum(body);
}

/** Whether the text has the form of a secret issued by this gateway: length, alphabet and checksum. */
export function isKeySecret(text: string): boolean {
  if (text.length !== secretLength || !shape.test(text)) return false;
  const body = text.slice(0, -checksumDigits);
  return checksum(body) === text.slice(-checksumDigits);
}

/** Identifies a key in lists and logs: `sk-proj-<first 4>...<last 4>` (service.md, API key). */
export const keyPreview = (secret: string): string =>
  `${prefix}${secret.slice(prefix.length, prefix.length + 4)}...${secret.slice(-4)}`;

/** HMAC-SHA-256 of the secret under a pepper kept outside the database. */
export const keyDigest = (secret: string, pepper: KeyPepper): Buffer =>
  createHmac('sha256', pepper.secret).update(secret).digest();

/** Separates it from digests and derived secrets, which use the same pepper. */
const fingerprintPurpose = 'modelgateway/keys/pepper-fingerprint/v1\0';

/** Lets a process recognise a pepper without having it: HMAC-SHA-256, 32 bytes. */
export const pepperFingerprint = (pepper: KeyPepper): Buffer =>
  createHmac('sha256', pepper.secret).update(fingerprintPurpose).digest();

const checksum = (text: string): string => base62(BigInt(crc32(text)), checksumDigits);

function base62(value: bigint, digits: number): string {
  let text = '';
  for (let place = 0; place < digits; place++) {
    text = alphabet[Number(value % 62n)] + text;
    value /= 62n;
  }
  return text;
}
