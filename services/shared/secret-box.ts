import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/** Encrypts what nobody else may read or make, for example signing keys that a dump of the database contains. */
export type SecretBox = {
  /** `context` identifies what the text belongs to; opening requires the same one. */
  seal(plain: Uint8Array, context: string): Buffer;
  /** Null when no secret opens it, because the one it was sealed under was removed, or because it was sealed for something else. */
  open(sealed: Uint8Array, context: string): Buffer | null;
};

const nonceBytes = 12;
const tagBytes = 16;

/**
 * AES-256-GCM under keys derived (HKDF, RFC 5869) from the service secrets, of which the first seals and all open. Boxes of
 * different purposes have different keys; a purpose must never change, or what was sealed before is lost.
 */
export function createSecretBox(secrets: readonly string[], purpose: string): SecretBox {
  const keys = secrets.map((secret) => Buffer.from(hkdfSync('sha256', secret, '', purpose, 32)));
  return {
    seal(plain, context) {
      // The random nonce makes two boxes with the same content differ.
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv('aes-256-gcm', keys[0]!, nonce).setAAD(Buffer.from(context));
      return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
    },
    open(sealed, context) {
      for (const key of keys) {
        const opened = tryOpen(key, Buffer.from(sealed), context);
        if (opened !== null) return opened;
      }
      return null;
    },
  };
}

function tryOpen(key: Buffer, sealed: Buffer, context: string): Buffer | null {
  if (sealed.length < nonceBytes + tagBytes) return null;
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, nonceBytes))
    .setAAD(Buffer.from(context))
    .setAuthTag(sealed.subarray(-tagBytes));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(nonceBytes, -tagBytes)), decipher.final()]);
  } catch {
    return null;
  }
}
