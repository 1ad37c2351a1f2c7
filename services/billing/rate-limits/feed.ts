import { create } from '@bufbuild/protobuf';
import {
  type RateLimitSnapshot,
  type WatchRateLimitsResponse,
  WatchRateLimitsResponseSchema,
} from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { type Listener, listen, notify } from '#shared/db/notify.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { patiently } from '#shared/db/patiently.ts';
import type { StatementRunner } from '#shared/db/run.ts';
import type { Logger } from '#shared/logger.ts';
import { readRateLimits } from './read-limits.ts';

const channel = 'billing_rate_limits';

/** How often a watch that has nothing to tell says so. */
const heartbeatMs = 500;

/** Tells every Billing process that limits change, when the transaction of the change commits. */
export const touchRateLimits = (tx: StatementRunner): Promise<void> => notify(tx, channel, '');

/** Everybody's rate limits as this Billing process last read them, kept current by notifications. */
export class RateLimitFeed {
  readonly #database: Pick<ServiceDatabase, 'pool'>;
  readonly #logger: Logger;
  #listener: Listener | undefined;
  #snapshot: RateLimitSnapshot | undefined;
  #reading: Promise<void> = Promise.resolve();
  readonly #waiting = new Set<() => void>();

  constructor(database: Pick<ServiceDatabase, 'pool'>, logger: Logger) {
    this.#database = database;
    this.#logger = logger;
  }

  /** Reads the limits and begins to listen for changes. */
  async open(connection: DatabaseUrl): Promise<void> {
    const reread = (): void => {
      // One after the other, so that the last one that was told of is the one that stays.
      this.#reading = this.#reading
        .then(() => this.#read())
        .catch((err: unknown) => this.#logger.error({ err }, 'rate limits could not be read again'));
    };
    this.#listener = await listen({ connection, channels: { [channel]: reread }, onGap: reread, logger: this.#logger });
    await patiently(() => this.#read());
  }

  async #read(): Promise<void> {
    this.#snapshot = await readRateLimits(this.#database.pool);
    for (const wake of [...this.#waiting]) wake();
  }

  /** The limits, at once and after each change, and heartbeats between them, until the signal aborts. */
  async *watch(signal: AbortSignal): AsyncGenerator<WatchRateLimitsResponse> {
    let known: RateLimitSnapshot | undefined;
    while (!signal.aborted) {
      const isNew = this.#snapshot !== known;
      known = this.#snapshot;
      yield create(WatchRateLimitsResponseSchema, { snapshot: isNew ? known : undefined });
      if (this.#snapshot === known) await this.#changeOr(heartbeatMs, signal);
    }
  }

  #changeOr(timeoutMs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, timeoutMs);
      this.#waiting.add(done);
      signal.addEventListener('abort', done, { once: true });
    });
  }

  async close(): Promise<void> {
    await this.#listener?.close();
    await this.#reading;
    for (const wake of [...this.#waiting]) wake();
  }
}
