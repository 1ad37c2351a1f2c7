import type { Clock } from '#shared/clock.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { listen } from '#shared/db/notify.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { patiently } from '#shared/db/patiently.ts';
import type { Logger } from '#shared/logger.ts';
import { Signal } from '#shared/signal.ts';
import { changedChannel } from '../db/changes.ts';
import { type LeaseKeeper, openLeaseKeeper } from './lease-keeper.ts';
import { acknowledgedChannel, countBehind } from './watchers.ts';

/** How changes reach edges and how their arrival is waited for. One per process. */
export type KeyFeed = {
  leases: Pick<LeaseKeeper, 'acknowledge' | 'leave' | 'isInTouch'>;
  /** How long the feed may be quiet, in milliseconds. */
  heartbeatMs: number;
  /** Resolves with the next change anywhere, or after `ms` at the latest. */
  nextChange(ms: number, signal: AbortSignal): Promise<void>;
  /** Resolves when every live edge has acknowledged a version or its lease, whoever may extend it, has lapsed. */
  knownEverywhere(version: bigint, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
};

/** Should a notification be lost, the wait goes on after this time, in milliseconds. */
const recheckMs = 100;

/** Opens the process's ear for changes and acknowledgements. Resolves once it listens. */
export async function openKeyFeed(options: {
  database: Pick<ServiceDatabase, 'query'>;
  connection: DatabaseUrl;
  clock: Pick<Clock, 'monotonic'>;
  logger: Logger;
  heartbeatMs: number;
}): Promise<KeyFeed> {
  const { database, connection, clock, logger, heartbeatMs } = options;
  await using opened = new AsyncDisposableStack();
  const leases = opened.adopt(await openLeaseKeeper({ database, clock, logger, beatMs: heartbeatMs }), (each) =>
    each.close(),
  );
  const changed = new Signal();
  const acknowledged = new Signal();
  const listener = await patiently(() =>
    listen({
      connection,
      channels: { [changedChannel]: () => changed.raise(), [acknowledgedChannel]: () => acknowledged.raise() },
      // Notifications were lost meanwhile: everybody reads again.
      onGap: () => {
        changed.raise();
        acknowledged.raise();
      },
      logger,
    }),
  );
  opened.defer(() => listener.close());
  const closing = opened.move();
  return {
    leases,
    heartbeatMs,
    nextChange: (ms, signal) => changed.next(ms, signal),
    async knownEverywhere(version, signal) {
      for (;;) {
        signal.throwIfAborted();
        const next = acknowledged.next(recheckMs, signal);
        if ((await countBehind(database, version)) === 0) return;
        await leases.settleLapsed();
        await next;
      }
    },
    close: () => closing.disposeAsync(),
  };
}
