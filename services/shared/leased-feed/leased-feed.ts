import { setTimeout as delay } from 'node:timers/promises';
import type { HandlerContext } from '@connectrpc/connect';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { isOutOfReach } from '#shared/db/errors.ts';
import { listen } from '#shared/db/notify.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { Logger } from '#shared/logger.ts';
import { heartbeatMs as usualHeartbeatMs } from '#shared/rpc/follow-stream.ts';
import { Signal } from '#shared/signal.ts';
import { createChangeReader, type FeedSource } from './change-reader.ts';
import { acknowledgedChannel, countBehind } from './leases.ts';
import { changedChannel } from './versions.ts';

/**
 * How a service tells edges about changes, and waits until they know. The service's schema has the tables `feed` (the version), `changes`
 * (what changed at each version) and `watchers` (leases.ts). One per process.
 */
export type LeasedFeed<Event> = {
  /**
   * The events for an edge that knows a version, until the signal aborts: whatever came later, and after some quiet a heartbeat. An edge
   * that knows nothing, too little, or more than there is, as after a restored backup, starts anew. While the database is out of reach
   * heartbeats go on: whether the edge may decide is up to the answers to its acknowledgements.
   */
  watch(knownVersion: bigint, signal: AbortSignal): AsyncGenerator<Event | Heartbeat>;
  /**
   * Resolves when every live edge has acknowledged a version, or its lease has lapsed and can no longer be extended. Rejects with
   * DEADLINE_EXCEEDED shortly before the deadline of the waiting call, so that the call can still report what was done.
   */
  knownEverywhere(version: bigint, call?: Pick<HandlerContext, 'signal' | 'timeoutMs'>): Promise<void>;
  close(): Promise<void>;
};

type Heartbeat = { version: bigint; event: { case: 'heartbeat'; value: object } };

/** In milliseconds. If the notification of an acknowledgement is lost, the wait continues after this time. */
const recheckMs = 100;

/** The share of a call's time spent waiting. The rest is for returning its answer. */
const patienceShare = 0.9;

const notKnownEverywhere = () =>
  gatewayError(
    ErrorReason.DEADLINE_EXCEEDED,
    'The change was made, but a part of the gateway that is out of reach may still act on the old state for up to a minute. Repeat the request to wait until none does.',
  );

/** Opens the process's listener for changes and acknowledgements. Resolves once it listens. */
export async function openLeasedFeed<Change extends { version: bigint }, Event>(options: {
  database: Pick<ServiceDatabase, 'query' | 'service'>;
  connection: DatabaseUrl;
  source: FeedSource<Change, Event>;
  /** Extends leases while the database is away; without it they lapse. */
  keeper?: { readonly isInTouch: boolean; settleLapsed(): Promise<void> };
  logger: Logger;
  /** How long the feed may be quiet, in milliseconds. */
  heartbeatMs?: number;
}): Promise<LeasedFeed<Event>> {
  const { database, connection, source, keeper, logger, heartbeatMs = usualHeartbeatMs } = options;
  const changed = new Signal();
  const acknowledged = new Signal();
  const changes = createChangeReader({ database, source, logger });
  const listener = await listen({
    connection,
    channels: {
      [changedChannel(database.service)]: () => changed.raise(),
      [acknowledgedChannel(database.service)]: () => acknowledged.raise(),
    },
    // Notifications were lost in the meantime: everybody reads again.
    onGap: () => {
      changes.serverMayBeAnother();
      changed.raise();
      acknowledged.raise();
    },
    logger,
  });

  /** Nothing if the database does not answer. */
  const newsIfAny: typeof changes.newsAfter = async (knownVersion) => {
    const none = { events: [], version: knownVersion, hasMore: false };
    if (keeper?.isInTouch === false) return none;
    try {
      return await changes.newsAfter(knownVersion);
    } catch (error) {
      if (isOutOfReach(error)) return none;
      throw error;
    }
  };

  return {
    async *watch(knownVersion, signal) {
      let version = knownVersion;
      const heartbeat = (): Heartbeat => ({ version, event: { case: 'heartbeat', value: {} } });
      while (!signal.aborted) {
        // Checked at each heartbeat too, in case a notification is lost.
        const nextChange = changed.next(heartbeatMs, signal);
        const reading = newsIfAny(version);
        // A silent database must not keep the edge waiting for a sign of life.
        let news = await Promise.race([reading, delay(heartbeatMs, undefined, { ref: false })]);
        while (news === undefined) {
          if (signal.aborted) return;
          yield heartbeat();
          news = await Promise.race([reading, delay(heartbeatMs, undefined, { ref: false })]);
        }
        yield* news.events;
        version = news.version;
        yield heartbeat();
        if (!news.hasMore) await nextChange;
      }
    },
    async knownEverywhere(version, call) {
      const untilMs = performance.now() + (call?.timeoutMs() ?? Number.POSITIVE_INFINITY) * patienceShare;
      for (;;) {
        call?.signal.throwIfAborted();
        const next = acknowledged.next(recheckMs, call?.signal);
        if ((await countBehind(database, version)) === 0) return;
        if (performance.now() > untilMs) throw notKnownEverywhere();
        await keeper?.settleLapsed();
        await next;
      }
    },
    close: () => listener.close(),
  };
}
