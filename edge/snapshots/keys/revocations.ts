import type { Client } from '@connectrpc/connect';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { Logger } from '#shared/logger.ts';
import { startRecurringWork } from '#shared/recurring-work.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import type { KeyPrincipal } from '../../principal.ts';

type Listener = { principal: KeyPrincipal; call: () => void; expiry?: NodeJS.Timeout };

/** setTimeout fires at once above this; no connection stays open for so long. */
const timerMsMax = 2_147_483_647;

const asEdge = { contextValues: callerContext(serviceCaller('edge')) };
/** How soon a key is asked about again of which Keys could not tell. */
const retryMs = 1_000;

/** Those who hold a connection open with a key and must hear when the key ends. */
export class Revocations {
  readonly #keys: Pick<Client<typeof KeysService>, 'getPrincipal'>;
  readonly #listeners = new Set<Listener>();
  /** Keys which may have been revoked without a word. */
  readonly #doubtful = new Set<string>();
  readonly #checks;

  constructor(keys: Pick<Client<typeof KeysService>, 'getPrincipal'>, logger: Logger) {
    this.#keys = keys;
    this.#checks = startRecurringWork({
      name: 'the check of keys with open connections',
      everyMs: retryMs,
      round: () => this.#check(),
      logger,
    });
  }

  listen(principal: KeyPrincipal, call: () => void): () => void {
    const listener: Listener = { principal, call };
    this.#listeners.add(listener);
    return () => this.#forget(listener);
  }

  /** Calls whoever holds a connection with such a principal, once. */
  revoke(isRevoked: (principal: KeyPrincipal) => boolean): void {
    for (const listener of [...this.#listeners]) {
      if (isRevoked(listener.principal)) this.#end(listener);
    }
  }

  /** Calls whoever holds a connection with this key once it expires, in so many milliseconds; Infinity: it does not. */
  expireIn(keyId: string, ms: number): void {
    for (const listener of this.#listeners) {
      if (listener.principal.keyId !== keyId) continue;
      clearTimeout(listener.expiry);
      if (ms <= timerMsMax) listener.expiry = setTimeout(() => this.#end(listener), ms).unref();
    }
  }

  /** Revocations may have been missed: Keys is asked about each key with an open connection, until it has answered. */
  checkAll(): void {
    for (const { principal } of this.#listeners) this.#doubtful.add(principal.keyId);
    this.#checks.wake();
  }

  close(): Promise<void> {
    return this.#checks.close();
  }

  /** Rejects with what became of the last key that could not be checked. */
  async #check(): Promise<void> {
    let failure: unknown;
    for (const keyId of [...this.#doubtful]) {
      // Before it is asked about, lest a doubt that comes meanwhile is lost.
      this.#doubtful.delete(keyId);
      try {
        const { principal } = await this.#keys.getPrincipal({ keyId }, asEdge);
        if (principal === undefined || principal.tenantSuspended) this.revoke((held) => held.keyId === keyId);
      } catch (error) {
        this.#doubtful.add(keyId);
        failure = error;
      }
    }
    if (failure !== undefined) throw failure;
  }

  #end(listener: Listener): void {
    this.#forget(listener);
    listener.call();
  }

  #forget(listener: Listener): void {
    clearTimeout(listener.expiry);
    this.#listeners.delete(listener);
  }
}
