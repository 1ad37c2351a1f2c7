import { createHash } from 'node:crypto';

/** Crockford's base 32: no letter that reads like a digit. */
const letters = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** A code of 26 characters, 130 bits, in groups, from at least 17 random bytes. */
export function couponCode(random: Uint8Array): string {
  let bits = 0n;
  for (const byte of random) bits = (bits << 8n) | BigInt(byte);
  let code = '';
  for (let index = 0; index < 26; index++) {
    code += letters[Number(bits & 31n)];
    bits >>= 5n;
  }
  return code.match(/.{1,7}/g)!.join('-');
}

/** The code as it is stored and compared: case and surrounding spaces do not matter. */
export const canonicalCode = (code: string): string => code.trim().toUpperCase();

export const codeDigest = (canonical: string): Buffer => createHash('sha256').update(canonical).digest();

/** Enough of a code to recognise it, but too little to guess the rest of a random one. */
export const codePreview = (canonical: string): string =>
  canonical.length <= 8 ? `${canonical.slice(0, 2)}…` : `${canonical.slice(0, 4)}…${canonical.slice(-2)}`;
