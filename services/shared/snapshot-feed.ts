import type { DatabaseUrl } from './db/connection.ts';
import { listen } from './db/notify.ts';
import { patiently } from './db/patiently.ts';
import type { Logger } from './logger.ts';
import { RepeatedFailures } from './repeated-failures.ts';
import { heartbeatMs } from './rpc/follow-stream.ts';
import { Signal } from './signal.ts';

/**
 * What this process last read of its service's data, kept current by notifications. Reads and watches are answered from it, so that they
 * continue while the database is away.
 */
export type SnapshotFeed<Snapshot> = {
  readonly snapshot: Snapshot;
  /** Reads again. Resolves when a state at least as new as this call is in force. */
  refresh(): Promise<void>;
  /** Snapshots as they come, the first at once, with undefined as a heartbeat in between, until the signal aborts. */
  watch(signal: AbortSignal): AsyncGenerator<Snapshot | undefined>;
  close(): Promise<void>;
};

/** How soon a failed reading is tried again, in milliseconds. */
const retryMs = 500;

/** Reads the first snapshot and starts listening for changes. */
export async function openSnapshotFeed<Snapshot extends object>(options: {
  /** Its name for the log, e.g. `the catalog`. */
  name: string;
  /** The channel on which changes are notified. */
  channel: string;
  read(): Promise<Snapshot>;
  connection: DatabaseUrl;
  logger: Logger;
}): Promise<SnapshotFeed<Snapshot>> {
  const { name, channel, read, connection, logger } = options;
  const changed = new Signal();
  const failures = new RepeatedFailures(`reading ${name}`, logger);
  let snapshot: Snapshot;
  let reading: Promise<void> | null = null;
  let readAgain = false;

  const readAll = async (): Promise<void> => {
    try {
      do {
        readAgain = false;
        try {
          snapshot = await read();
          changed.raise();
        } catch (error) {
          if (!readAgain) throw error;
        }
      } while (readAgain);
    } finally {
      reading = null;
    }
  };
  const refresh = (): Promise<void> => {
    // The running read may have begun before the change: one more follows it, for all who asked meanwhile.
    readAgain = reading !== null;
    reading ??= readAll();
    return reading;
  };
  let retry: NodeJS.Timeout | undefined;
  /** A notified change must not be lost when a reading fails. */
  const reread = (): void => {
    refresh().then(
      () => failures.succeeded(),
      (err: unknown) => {
        failures.failed(err, 'failed; it will be retried');
        clearTimeout(retry);
        retry = setTimeout(reread, retryMs);
      },
    );
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
