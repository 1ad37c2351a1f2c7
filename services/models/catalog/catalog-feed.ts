import { create } from '@bufbuild/protobuf';
import { IsolationLevel, type SqlEntityManager } from '@mikro-orm/postgresql';
import type { CatalogSnapshot } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import {
  type WatchCatalogResponse,
  WatchCatalogResponseSchema,
} from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { type Listener, listen, notify } from '#shared/db/notify.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { patiently } from '#shared/db/patiently.ts';
import { transaction } from '#shared/db/transaction.ts';
import type { Logger } from '#shared/logger.ts';
import { readSnapshot } from './snapshot.ts';

const channel = 'models_catalog';

/** How often a watch that has nothing to tell says so. */
const heartbeatMs = 500;

/** Lets changes of the catalog come one after the other; held until the transaction ends. */
export async function lockCatalog(em: SqlEntityManager): Promise<void> {
  await em.execute('select version from catalog_version for update');
}

/** Raises the catalog's version and tells every Models process, when the transaction of the change commits. */
export async function touchCatalog(em: SqlEntityManager): Promise<void> {
  await em.execute('update catalog_version set version = version + 1');
  await notify(em, channel, '');
}

/**
 * The catalog as this Models process last read it, kept current by notifications. Reads and watches are answered from it, so
 * that they go on while the database is away.
 */
export class CatalogFeed {
  readonly #database: ServiceDatabase;
  readonly #logger: Logger;
  #listener: Listener | undefined;
  #snapshot: CatalogSnapshot | undefined;
  #reading: Promise<void> | null = null;
  #readAgain = false;
  readonly #waiting = new Set<() => void>();

  constructor(database: ServiceDatabase, logger: Logger) {
    this.#database = database;
    this.#logger = logger;
  }

  /** Reads the catalog and begins to listen for changes. */
  async open(connection: DatabaseUrl): Promise<void> {
    const reread = (): void => {
      this.refresh().catch((err: unknown) => this.#logger.error({ err }, 'the catalog could not be read again'));
    };
    this.#listener = await listen({ connection, channels: { [channel]: reread }, onGap: reread, logger: this.#logger });
    await patiently(() => this.refresh());
  }

  get snapshot(): CatalogSnapshot {
    if (this.#snapshot === undefined) throw new Error('the catalog was not opened');
    return this.#snapshot;
  }

  /** Reads the catalog again. Resolves when a state that is at least as new as this call is in force. */
  async refresh(): Promise<void> {
    if (this.#reading !== null) {
      // The read under way may have begun before the change: one more follows it, for all who asked meanwhile.
      this.#readAgain = true;
      return this.#reading;
    }
    this.#reading = this.#read();
    try {
      await this.#reading;
    } finally {
      this.#reading = null;
    }
  }

  async #read(): Promise<void> {
    do {
      this.#readAgain = false;
      const next = await transaction(this.#database, readSnapshot, { isolationLevel: IsolationLevel.REPEATABLE_READ });
      if (this.#snapshot === undefined || next.version > this.#snapshot.version) {
        this.#snapshot = next;
        this.#wakeAll();
      }
    } while (this.#readAgain);
  }

  /** Snapshots as they come, and heartbeats between them, until the signal aborts. */
  async *watch(knownVersion: bigint, signal: AbortSignal): AsyncGenerator<WatchCatalogResponse> {
    let known = knownVersion;
    while (!signal.aborted) {
      const { snapshot } = this;
      if (snapshot.version > known) {
        known = snapshot.version;
        yield create(WatchCatalogResponseSchema, { version: known, snapshot });
      } else {
        await this.#changeOr(heartbeatMs, signal);
        if (!signal.aborted && this.snapshot.version === known)
          yield create(WatchCatalogResponseSchema, { version: known });
      }
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

  #wakeAll(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  async close(): Promise<void> {
    await this.#listener?.close();
    this.#wakeAll();
  }
}
