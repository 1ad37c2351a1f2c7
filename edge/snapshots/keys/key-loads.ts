import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { AuthenticateResponse, KeyDigestSchema } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import type { KeyPepper } from '#shared/env.ts';
import { ErrorReason, GatewayError, gatewayError } from '#shared/errors.ts';
import { keyDigest } from '#shared/key-secret.ts';
import { asService } from '#shared/rpc/caller.ts';

/** Look-ups at a time. Beyond them requests with unknown keys are told to come back, so that a flood stays small. */
const runningMax = 2_000;
/** Within the second in which an unreachable database is to be refused (reliability.md), in milliseconds. */
const timeoutMs = 1_000;

export type SecretDigests = { names: readonly string[]; messages: MessageInitShape<typeof KeyDigestSchema>[] };

/** A secret's digest under each pepper that is in use. */
export function digestsOf(token: string, peppers: readonly KeyPepper[]): SecretDigests {
  const messages = peppers.map((pepper) => ({ pepperVersion: pepper.version, digest: keyDigest(token, pepper) }));
  return { messages, names: messages.map(digestName) };
}

/** A digest as the edge's maps name it. */
export const digestName = ({ pepperVersion, digest }: { pepperVersion: number; digest: Uint8Array }): string =>
  `${pepperVersion}:${asBuffer(digest).toString('base64')}`;

/** What is sent to Keys for a name of `digestName`. */
export function digestNamed(name: string): MessageInitShape<typeof KeyDigestSchema> {
  const colon = name.indexOf(':');
  return { pepperVersion: Number(name.slice(0, colon)), digest: Buffer.from(name.slice(colon + 1), 'base64') };
}

/** Asks Keys whose a secret is. Whatever goes wrong is OVERLOADED: that nobody can tell says nothing about the key. */
export class KeyLoads {
  readonly #keys: Pick<Client<typeof KeysService>, 'authenticate'>;
  #running = 0;

  constructor(keys: Pick<Client<typeof KeysService>, 'authenticate'>) {
    this.#keys = keys;
  }

  async ask(digests: SecretDigests): Promise<AuthenticateResponse> {
    if (this.#running >= runningMax) throw cannotTell(`${this.#running} look-ups of keys are running`);
    this.#running += 1;
    try {
      return await this.#keys.authenticate({ digests: digests.messages }, { ...asService('edge'), timeoutMs });
    } catch (error) {
      throw cannotTell('Keys did not answer', error);
    } finally {
      this.#running -= 1;
    }
  }
}

/** OVERLOADED, with what the operators should know. */
export function cannotTell(internal: string, cause?: unknown): GatewayError {
  const retryAfterMs = (cause instanceof GatewayError ? cause.details.retryAfterMs : undefined) ?? 1_000;
  return gatewayError(ErrorReason.OVERLOADED, 'API keys cannot be checked at the moment. Try again shortly.', {
    internal: cause instanceof Error ? `${internal}: ${cause.message}` : internal,
    retryAfterMs,
    cause,
  });
}
