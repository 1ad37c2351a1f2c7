import type { Client } from '@connectrpc/connect';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { Logger } from '#shared/logger.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import type { KeyPrincipal } from '../../principal.ts';

type Listener = { principal: KeyPrincipal; call: () => void };

/** Those who hold a connection open with a key and must hear when the key ends. */
export class Revocations {
  readonly #keys: Pick<Client<typeof KeysService>, 'getPrincipal'>;
  readonly #logger: Logger;
  readonly #listeners = new Set<Listener>();

  constructor(keys: Pick<Client<typeof KeysService>, 'getPrincipal'>, logger: Logger) {
    this.#keys = keys;
    this.#logger = logger;
  }

  listen(principal: KeyPrincipal, call: () => void): () => void {
    const listener = { principal, call };
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Calls whoever holds a connection with such a principal, once. */
  revoke(isRevoked: (principal: KeyPrincipal) => boolean): void {
    for (const listener of [...this.#listeners]) {
      if (!isRevoked(listener.principal)) continue;
      this.#listeners.delete(listener);
      listener.call();
    }
  }

  /** Revocations may have been missed: asks Keys about each key with an open connection. */
  async checkAll(): Promise<void> {
    const keyIds = new Set([...this.#listeners].map(({ principal }) => principal.keyId));
    for (const keyId of keyIds) {
      try {
        const options = { contextValues: callerContext(serviceCaller('edge')) };
        const { principal } = await this.#keys.getPrincipal({ keyId }, options);
        if (principal === undefined || principal.tenantSuspended) {
          this.revoke((held) => held.keyId === keyId);
        }
      } catch (err) {
        this.#logger.warn({ err, keyId }, 'a key with open connections could not be checked');
      }
    }
  }
}
