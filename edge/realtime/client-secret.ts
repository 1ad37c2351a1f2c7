import { createSecretBox, type SecretBox } from '#shared/secret-box.ts';

/** What a client secret stands for. */
export type SecretContent = {
  /** Until when it opens sessions, in milliseconds since the Unix epoch. */
  expiresAtMs: number;
  /** Its holder: a key, by the digests of its secret (digestName), or a session, by its access token, which lives for only 30 minutes. */
  holder: { kind: 'key'; digests: readonly string[] } | { kind: 'session'; accessToken: string };
  /** The session object to which it is bound, as JSON; empty: none. */
  sessionJson: string;
};

const prefix = 'ek_';
/** The context of the secret box: none, since nothing but the secret itself is known when it is opened. */
const context = '';

export const looksLikeClientSecret = (token: string): boolean => token.startsWith(prefix);

/**
 * Makes and reads client secrets (openai-contract.md section 5). A secret is its own content, sealed with a key that is derived from
 * SERVICE_SECRET: every edge reads those of every other, nothing is stored, and nobody else can read or make one.
 */
export class ClientSecrets {
  readonly #box: SecretBox;

  /** `serviceSecrets`: the first seals, all of them open. */
  constructor(serviceSecrets: readonly string[]) {
    this.#box = createSecretBox(serviceSecrets, 'model-gateway realtime client secret v1');
  }

  seal(content: SecretContent): string {
    return prefix + this.#box.seal(Buffer.from(JSON.stringify(content)), context).toString('base64url');
  }

  /** The content of a secret; null when no edge made it. Whether it has expired is for the caller to check. */
  open(secret: string): SecretContent | null {
    const opened = this.#box.open(Buffer.from(secret.slice(prefix.length), 'base64url'), context);
    return opened === null ? null : (JSON.parse(opened.toString()) as SecretContent);
  }
}
