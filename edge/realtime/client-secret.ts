import { createSecretBox, type SecretBox } from '#shared/secret-box.ts';

/** What a client secret stands for. */
export type SecretContent = {
  /** Until when it opens sessions, in milliseconds since the Unix epoch. */
  expiresAtMs: number;
  /**
   * Whose it is: a key by the digests of its secret (digestName), or a session by its access token, which lives for 30 minutes only. Secrets
   * that an earlier version issued have no digests.
   */
  holder: { kind: 'key'; digests?: readonly string[] } | { kind: 'session'; accessToken: string };
  /** The session object to which it is bound, as JSON; empty: none. */
  sessionJson: string;
};

const prefix = 'ek_';
/** Each secret stands by itself. */
const context = '';

export const looksLikeClientSecret = (token: string): boolean => token.startsWith(prefix);

/**
 * Makes and reads client secrets (openai-contract.md section 5). A secret is its own content, sealed with a key that is derived from
 * SERVICE_SECRET: every edge reads those of every other, nothing is stored, and nobody else can read or make one.
 */
export class ClientSecrets {
  readonly #box: SecretBox;

  /** `serviceSecrets`: newest first; the first seals, all of them open. */
  constructor(serviceSecrets: readonly string[]) {
    this.#box = createSecretBox(serviceSecrets, 'model-gateway realtime client secret v1');
  }

  seal(content: SecretContent): string {
    return prefix + this.#box.seal(Buffer.from(JSON.stringify(content)), context).toString('base64url');
  }

  /** The content of a secret; null when nobody here made it. Whether it has expired is for the caller to say. */
  open(secret: string): SecretContent | null {
    const opened = this.#box.open(Buffer.from(secret.slice(prefix.length), 'base64url'), context);
    return opened === null ? null : (JSON.parse(opened.toString()) as SecretContent);
  }
}
