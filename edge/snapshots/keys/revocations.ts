import type { Client } from '@connectrpc/connect';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { type Clock, timerMsMax } from '#shared/clock.ts';
import { type GatewayError, tenantSuspended } from '#shared/errors.ts';
import type { Logger } from '#shared/logger.ts';
import { startRecurringWork } from '#shared/recurring-work.ts';
import { slicesOf } from '#shared/slices.ts';
import type { KeyPrincipal } from '../../principal.ts';
import { hasSecret } from './key-cache.ts';
import { askWhose, digestNamed } from './key-loads.ts';
import { keyPrincipal } from './key-principal.ts';
import { endedKey, expiredKey } from './key-refusals.ts';

type Listener = {
  principal: KeyPrincipal;
  call: (refusal: GatewayError) => void;
  change: (principal: KeyPrincipal) => void;
  /** The version of what it was last told about its key. */
  version: bigint;
  expiry?: NodeJS.Timeout;
};

type RevocationsDeps = {
  keys: Pick<Client<typeof KeysService>, 'authenticate'>;
  clock: Pick<Clock, 'now'>;
  logger: Logger;
};

/** How soon Keys is asked again about a secret of which it could not tell, in milliseconds. */
const retryMs = 1_000;
/** How many secrets are asked about at a time. */
const askedMax = 100;

/** The holders of open connections, who must hear when the secret that opened theirs ends, by expiry too. */
export class Revocations {
  readonly #deps: RevocationsDeps;
  readonly #listeners = new Set<Listener>();
  /** Those whose secret may have ended without an event. */
  readonly #doubtful = new Set<Listener>();
  readonly #checks;

  constructor(deps: RevocationsDeps) {
    this.#deps = deps;
    this.#checks = startRecurringWork({
      name: 'checking the keys of open connections',
      everyMs: retryMs,
      round: (signal) => this.#check(signal),
      logger: deps.logger,
    });
  }

  listen(principal: KeyPrincipal, call: Listener['call'], change: Listener['change'] = () => {}): () => void {
    const listener: Listener = { principal, call, change, version: 0n };
    this.#listeners.add(listener);
    this.#expireAt(listener, principal.expiresAtMs);
    // A change may have come between its authentication and now.
    this.#doubtful.add(listener);
    this.#checks.wake();
    return () => this.#forget(listener);
  }

  /** Calls every holder of a connection with such a principal, once, with the refusal that further requests get. */
  revoke(isRevoked: (principal: KeyPrincipal) => boolean, refusal: GatewayError): void {
    for (const listener of [...this.#listeners]) {
      if (isRevoked(listener.principal)) this.#end(listener, refusal);
    }
  }

  /**
   * Tells every holder of a connection with one of these secrets what its key may do now, and calls it once the key expires, if it does.
   */
  change(digests: ReadonlySet<string>, principal: KeyPrincipal, version: bigint): void {
    for (const listener of this.#listeners) {
      if (hasSecret(listener.principal, digests)) this.#change(listener, principal, version);
    }
  }

  /** Changes may have been missed: asks Keys about each secret with an open connection until it answers. */
  checkAll(): void {
    for (const listener of this.#listeners) {
      // After a restore the database's versions continue from the backup.
      listener.version = 0n;
      this.#doubtful.add(listener);
    }
    this.#checks.wake();
  }

  close(): Promise<void> {
    return this.#checks.close();
  }

  /** Rejects with the reason why the secret could not be checked. Asks nothing more once `signal` aborts. */
  async #check(signal: AbortSignal): Promise<void> {
    let failure: unknown;
    for (const asked of slicesOf([...this.#doubtful], askedMax)) {
      if (signal.aborted) return;
      await Promise.all(
        asked.map((listener) =>
          this.#ask(listener).catch((error) => {
            // Unless its connection has closed meanwhile.
            if (this.#listeners.has(listener)) this.#doubtful.add(listener);
            failure = error;
          }),
        ),
      );
    }
    if (failure !== undefined) throw failure;
  }

  async #ask(listener: Listener): Promise<void> {
    // Removed before asking, so that a doubt that arises meanwhile is not lost. Its connection may have closed by its turn.
    if (!this.#doubtful.delete(listener)) return;
    const { digests } = listener.principal;
    const { principal } = await askWhose(this.#deps.keys, digests.map(digestNamed));
    if (!this.#listeners.has(listener)) return;
    if (principal === undefined || principal.tenantSuspended) {
      this.#end(listener, principal === undefined ? endedKey() : tenantSuspended());
      return;
    }
    this.#change(listener, keyPrincipal(principal, digests), principal.version);
  }

  /** The feed and Keys' answers can overtake each other: whatever is older than what was last told is ignored. */
  #change(listener: Listener, principal: KeyPrincipal, version: bigint): void {
    if (version < listener.version) return;
    listener.version = version;
    this.#expireAt(listener, principal.expiresAtMs);
    listener.change(principal);
  }

  #expireAt(listener: Listener, expiresAtMs: number): void {
    clearTimeout(listener.expiry);
    const ms = expiresAtMs - this.#deps.clock.now();
    // No connection stays open for longer than a timer can wait.
    if (ms <= timerMsMax) listener.expiry = setTimeout(() => this.#end(listener, expiredKey()), ms).unref();
  }

  #end(listener: Listener, refusal: GatewayError): void {
    this.#forget(listener);
    listener.call(refusal);
  }

  #forget(listener: Listener): void {
    clearTimeout(listener.expiry);
    this.#listeners.delete(listener);
    this.#doubtful.delete(listener);
  }
}
