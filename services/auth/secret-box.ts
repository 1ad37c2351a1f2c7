import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/** Encrypts what must not be readable in a dump of the database: private signing keys and mails with one-time tokens. */
export type SecretBox = {
  /** `context` says what the text belongs to; it must be the same when the box is opened. */
  seal(plain: Uint8Array, context: string): Buffer;
  /** @throws when no secret opens it, or when it was sealed for something else. */
  open(sealed: Uint8Array, context: string): Buffer;
};

const nonceBytes = 12;
const tagBytes = 16;

/** AES-256-GCM under keys derived (HKDF, RFC 5869) from the service secrets, newest first: the first seals, all of them open. */
export function createSecretBox(secrets: readonly string[]): SecretBox {
  const keys = secrets.map((secret) =>
    Buffer.from(hkdfSync('sha256', secret, '', 'model-gateway auth secret box', 32)),
  );
  return {
    seal(plain, context) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv('aes-256-gcm', keys[0]!, nonce).setAAD(Buffer.from(context));
      return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
    },
    open(sealed, context) {
      for (const key of keys) {
        const opened = tryOpen(key, Buffer.from(sealed), context);
        if (opened !== null) return opened;
      }
      throw new Error(`no SERVICE_SECRET opens the sealed ${context}; was the secret it was sealed under removed?`);
    },
  };
}

function tryOpen(key: Buffer, sealed: Buffer, context: string): Buffer | null {
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, nonceBytes))
    .setAAD(Buffer.from(context))
    .setAuthTag(sealed.subarray(-tagBytes));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(nonceBytes, -tagBytes)), decipher.final()]);
  } catch {
    return null;
  }
}
