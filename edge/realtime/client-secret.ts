import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/** What a client secret stands for. */
export type SecretContent = {
  /** Until when it opens sessions, in milliseconds since the Unix epoch. */
  expiresAtMs: number;
  /** Whose it is: a key by its id, or a session by its access token, which lives for 30 minutes only. */
  holder: { kind: 'key'; keyId: string } | { kind: 'session'; accessToken: string };
  /** The session object to which it is bound, as JSON; empty: none. */
  sessionJson: string;
};

const prefix = 'ek_';
const nonceBytes = 12;
const tagBytes = 16;

export const looksLikeClientSecret = (token: string): boolean => token.startsWith(prefix);

/**
 * Makes and reads client secrets (openai-contract.md section 5). A secret is its own content, sealed by AES-256-GCM with a key that
 * is derived from SERVICE_SECRET: every edge reads those of every other, nothing is stored, and nobody else can read or make one.
 */
export class ClientSecrets {
  readonly #keys: readonly Buffer[];

  /** `serviceSecrets`: newest first; the first seals, all of them open. */
  constructor(serviceSecrets: readonly string[]) {
    this.#keys = serviceSecrets.map((secret) =>
      Buffer.from(hkdfSync('sha256', secret, '', 'model-gateway realtime client secret v1', 32)),
    );
  }

  seal(content: SecretContent): string {
    // The random nonce of 96 bits makes two secrets of the same content differ.
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv('aes-256-gcm', this.#keys[0]!, nonce);
    const sealed = Buffer.concat([cipher.update(JSON.stringify(content), 'utf8'), cipher.final()]);
    return prefix + Buffer.concat([nonce, sealed, cipher.getAuthTag()]).toString('base64url');
  }

  /** The content of a secret; null when nobody here made it. Whether it has expired is for the caller to say. */
  open(secret: string): SecretContent | null {
    const bytes = Buffer.from(secret.slice(prefix.length), 'base64url');
    if (bytes.length <= nonceBytes + tagBytes) return null;
    for (const key of this.#keys) {
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes));
      decipher.setAuthTag(bytes.subarray(-tagBytes));
      try {
        const text = Buffer.concat([decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()]);
        return JSON.parse(text.toString('utf8')) as SecretContent;
      } catch {
        // Another secret may have sealed it.
      }
    }
    return null;
  }
}
