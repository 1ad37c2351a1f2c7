import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@connectrpc/connect';
import type { WatchKeysResponse } from '#gen/modelgateway/keys/v1/feed_pb.ts';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Logger } from '#shared/logger.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { type Lease, silenceMsMax } from './lease.ts';

const acknowledgeEveryMs = 500;
const acknowledgeTimeoutMs = 1_000;
/** After this much silence the edge stops renewing: it may be missing changes, and nobody should wait for it. */
const quietMsMax = 1_000;
const reconnectMsMin = 20;
const reconnectMsMax = 500;

export type FeedClientDeps = {
  keys: Pick<Client<typeof KeysService>, 'watchKeys' | 'acknowledgeKeys'>;
  lease: Lease;
  clock: Pick<Clock, 'monotonic'>;
  logger: Logger;
  /** Takes one event over. Once it returns, the edge decides accordingly. */
  apply: (event: WatchKeysResponse) => void;
};

/** The edge's end of the feed: it reads, reconnects, and acknowledges what was applied, which renews the lease. */
export class FeedClient {
  readonly #deps: FeedClientDeps;
  readonly #edgeId = uuidv7();
  readonly #options = { contextValues: callerContext(serviceCaller('edge')) };
  readonly #stopped = new AbortController();
  #stream = new AbortController();
  #applied = 0n;
  #acknowledged = -1n;
  #acknowledging = false;
  #running: Promise<void> | null = null;
  #acknowledgeTimer: NodeJS.Timeout | undefined;

  constructor(deps: FeedClientDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#running = this.#watchAlways();
    this.#acknowledgeTimer = setInterval(() => this.#tick(), acknowledgeEveryMs).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#acknowledgeTimer);
    this.#stopped.abort();
    this.#stream.abort();
    this.#deps.lease.end();
    await this.#running;
  }

  async #watchAlways(): Promise<void> {
    const { signal } = this.#stopped;
    let waitMs = reconnectMsMin;
    while (!signal.aborted) {
      try {
        await this.#watch(() => {
          waitMs = reconnectMsMin;
        });
      } catch (err) {
        if (!signal.aborted) this.#deps.logger.debug({ err }, 'the feed of keys ended');
      }
      await delay(waitMs, undefined, { signal, ref: false }).catch(() => {});
      waitMs = Math.min(waitMs * 2, reconnectMsMax);
    }
  }

  async #watch(onEvent: () => void): Promise<void> {
    this.#stream = new AbortController();
    const signal = AbortSignal.any([this.#stopped.signal, this.#stream.signal]);
    const request = { edgeId: this.#edgeId, afterVersion: this.#applied };
    // Real time, as the timers are: an edge under a test's clock must notice a dead connection too.
    const watchdog = setTimeout(() => this.#stream.abort(), 2 * silenceMsMax).unref();
    try {
      for await (const event of this.#deps.keys.watchKeys(request, { ...this.#options, signal, timeoutMs: 0 })) {
        watchdog.refresh();
        onEvent();
        this.#deps.apply(event);
        this.#applied = event.version;
        this.#deps.lease.heard();
        if (this.#applied > this.#acknowledged) void this.#acknowledge();
      }
    } finally {
      clearTimeout(watchdog);
      this.#stream.abort();
    }
  }

  #tick(): void {
    if (this.#deps.lease.silentMs <= quietMsMax) void this.#acknowledge();
  }

  /** One at a time; what was applied meanwhile is acknowledged right after. */
  async #acknowledge(): Promise<void> {
    if (this.#acknowledging || this.#stopped.signal.aborted) return;
    this.#acknowledging = true;
    try {
      do {
        const version = this.#applied;
        const sentMs = this.#deps.clock.monotonic();
        const { leaseMs, rewatch } = await this.#deps.keys.acknowledgeKeys(
          { edgeId: this.#edgeId, version },
          { ...this.#options, timeoutMs: acknowledgeTimeoutMs, signal: this.#stopped.signal },
        );
        if (rewatch) {
          this.#stream.abort();
          return;
        }
        this.#acknowledged = version;
        this.#deps.lease.renew(sentMs, leaseMs);
      } while (this.#applied > this.#acknowledged);
    } catch (err) {
      this.#deps.logger.debug({ err }, 'the lease on keys was not renewed');
    } finally {
      this.#acknowledging = false;
    }
  }
}
