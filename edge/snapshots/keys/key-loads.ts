import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { AuthenticateResponse, KeyDigestSchema } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import type { KeyPepper } from '#shared/env/secrets.ts';
import { ErrorReason, GatewayError, gatewayError } from '#shared/errors.ts';
import { keyDigest } from '#shared/key-secret.ts';
import { asService } from '#shared/rpc/caller.ts';

/** The most look-ups at a time. Beyond them requests with unknown keys are told to come back, which keeps the load of a flood small. */
const runningMax = 2_000;
/** In milliseconds: less than the second within which requests must be refused when the database is unreachable (reliability.md). */
const timeoutMs = 1_000;

export type SecretDigests = { names: readonly string[]; messages: MessageInitShape<typeof KeyDigestSchema>[] };

/** A secret's digest under each pepper that is in use. */
export function digestsOf(token: string, peppers: readonly KeyPepper[]): SecretDigests {
  const messages = peppers.map((pepper) => ({ pepperVersion: pepper.version, digest: keyDigest(token, pepper) }));
  return { messages, names: messages.map(digestName) };
}

/** The key of a digest in the edge's maps. */
export const digestName = ({ pepperVersion, digest }: { pepperVersion: number; digest: Uint8Array }): string =>
  `${pepperVersion}:${asBuffer(digest).toString('base64')}`;

/** The digest of a name made by `digestName`, in the form sent to Keys. */
export function digestNamed(name: string): MessageInitShape<typeof KeyDigestSchema> {
  const colon = name.indexOf(':');
  return { pepperVersion: Number(name.slice(0, colon)), digest: Buffer.from(name.slice(colon + 1), 'base64') };
}

/** Asks Keys whose a secret is, a bounded number of times at once. */
export class KeyLoads {
  readonly #keys: AskedKeys;
  #running = 0;

  constructor(keys: AskedKeys) {
    this.#keys = keys;
  }

  async ask(digests: SecretDigests): Promise<AuthenticateResponse> {
    if (this.#running >= runningMax) throw cannotTell(`${this.#running} look-ups of keys are running`);
    this.#running += 1;
    try {
      return await askWhose(this.#keys, digests.messages);
    } finally {
      this.#running -= 1;
    }
  }
}

type AskedKeys = Pick<Client<typeof KeysService>, 'authenticate'>;

/** Asks Keys whose a secret is. Any failure is OVERLOADED: not knowing says nothing about the key. */
export async function askWhose(keys: AskedKeys, digests: SecretDigests['messages']): Promise<AuthenticateResponse> {
  try {
    return await keys.authenticate({ digests }, { ...asService('edge'), timeoutMs });
  } catch (error) {
    throw cannotTell('Keys did not answer', error);
  }
}

/** OVERLOADED, with a text for operators. */
export function cannotTell(internal: string, cause?: unknown): GatewayError {
  const retryAfterMs = (cause instanceof GatewayError ? cause.details.retryAfterMs : undefined) ?? 1_000;
  return gatewayError(ErrorReason.OVERLOADED, 'API keys cannot be checked at the moment. Try again shortly.', {
    internal: cause instanceof Error ? `${internal}: ${cause.message}` : internal,
    retryAfterMs,
    cause,
  });
}
