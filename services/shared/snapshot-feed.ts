import type { DatabaseUrl } from './db/connection.ts';
import { listen } from './db/notify.ts';
import { patiently } from './db/patiently.ts';
import type { Logger } from './logger.ts';
import { heartbeatMs } from './rpc/follow-stream.ts';
import { Signal } from './signal.ts';

/**
 * What this process last read of its service's data, kept current by notifications. Reads and watches are answered from it, so that
 * they go on while the database is away.
 */
export type SnapshotFeed<Snapshot> = {
  readonly snapshot: Snapshot;
  /** Reads again. Resolves when a state that is at least as new as this call is in force. */
  refresh(): Promise<void>;
  /** Snapshots as they come, the first at once, and undefined as a heartbeat between them, until the signal aborts. */
  watch(signal: AbortSignal): AsyncGenerator<Snapshot | undefined>;
  close(): Promise<void>;
};

/** How soon a reading that failed is tried again, in milliseconds. */
const retryMs = 500;

/** Reads the first snapshot and begins to listen for changes. */
export async function openSnapshotFeed<Snapshot extends object>(options: {
  /** What it is, for the log, e.g. `the catalog`. */
  name: string;
  /** Where changes are told. */
  channel: string;
  read(): Promise<Snapshot>;
  connection: DatabaseUrl;
  logger: Logger;
}): Promise<SnapshotFeed<Snapshot>> {
  const { name, channel, read, connection, logger } = options;
  const changed = new Signal();
  let snapshot: Snapshot;
  let reading: Promise<void> | null = null;
  let readAgain = false;

  const readAll = async (): Promise<void> => {
    try {
      do {
        readAgain = false;
        snapshot = await read();
        changed.raise();
      } while (readAgain);
    } finally {
      reading = null;
    }
  };
  const refresh = (): Promise<void> => {
    // The read under way may have begun before the change: one more follows it, for all who asked meanwhile.
    readAgain = reading !== null;
    reading ??= readAll();
    return reading;
  };
  let retry: NodeJS.Timeout | undefined;
  /** A change that was told must not be lost with a reading that fails. */
  const reread = (): void => {
    refresh().catch((err: unknown) => {
      logger.error({ err }, `${name} could not be read again; trying again`);
      clearTimeout(retry);
      retry = setTimeout(reread, retryMs);
    });
  };
  const listener = await listen({ connection, channels: { [channel]: reread }, onGap: reread, logger });
  try {
    await patiently(refresh);
  } catch (error) {
    await listener.close();
    clearTimeout(retry);
    throw error;
  }

  return {
    get snapshot() {
      return snapshot;
    },
    refresh,
    async *watch(signal) {
      let known: Snapshot | undefined;
      while (!signal.aborted) {
        const isNew = snapshot !== known;
        known = snapshot;
        yield isNew ? known : undefined;
        if (snapshot === known) await changed.next(heartbeatMs, signal);
      }
    },
    async close() {
      await listener.close();
      await reading?.catch(() => {});
      clearTimeout(retry);
    },
  };
}
