import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '#shared/clock.ts';
import type { Logger } from '#shared/logger.ts';
import { Lease, silenceMsMax } from './keys/lease.ts';

/** A service's feed: its RPCs, and what to do with an event. */
export type FeedSource<Event extends { version: bigint }> = {
  /** For the log. */
  name: string;
  watch(signal: AbortSignal): AsyncIterable<Event>;
  acknowledge(version: bigint): Promise<{ leaseMs: number; rewatch: boolean }>;
  /** Says goodbye, so that nobody waits for this edge any more. */
  leave(): Promise<unknown>;
  apply(event: Event): void;
};

export type FeedFollower = {
  /** Whether the edge may decide from what the feed told. */
  readonly isLive: boolean;
  close(): Promise<void>;
};

const reopenMsMin = 20;
const reopenMsMax = 1_000;

/**
 * Follows a feed and acknowledges each event, which renews the lease. A feed that ends, falls silent, or whose service does not
 * know this edge any more is opened again.
 */
export function followFeed<Event extends { version: bigint }>(
  source: FeedSource<Event>,
  deps: { clock: Clock; logger: Logger },
): FeedFollower {
  const { clock, logger } = deps;
  const lease = new Lease(clock);
  const closed = new AbortController();
  let reopenMs = reopenMsMin;
  /** The acknowledgements under way; they may outlive their feed. */
  let acknowledging: Promise<void> = Promise.resolve();

  const followOnce = async (): Promise<void> => {
    const stop = new AbortController();
    const end = (): void => stop.abort();
    closed.signal.addEventListener('abort', end);
    const acknowledge = acknowledger(source, lease, stop, { clock, logger });
    // Counted in turns of the event loop, so that a process which was itself suspended first reads what waits.
    let silentTurns = 0;
    const silence = setInterval(() => {
      silentTurns += 1;
      if (silentTurns >= 4) stop.abort();
    }, silenceMsMax / 3).unref();
    try {
      for await (const event of source.watch(stop.signal)) {
        silentTurns = 0;
        lease.heard();
        source.apply(event);
        reopenMs = reopenMsMin;
        acknowledging = acknowledge(event.version);
      }
    } finally {
      stop.abort();
      clearInterval(silence);
      closed.signal.removeEventListener('abort', end);
    }
  };

  const follow = async (): Promise<void> => {
    while (!closed.signal.aborted) {
      try {
        await followOnce();
      } catch (err) {
        if (!closed.signal.aborted) logger.debug({ err, feed: source.name }, 'the feed ended; opening it again');
      }
      await delay(reopenMs, undefined, { signal: closed.signal, ref: false }).catch(() => {});
      reopenMs = Math.min(reopenMs * 2, reopenMsMax);
    }
  };
  const following = follow();

  return {
    get isLive() {
      return lease.isValid;
    },
    async close() {
      closed.abort();
      lease.end();
      await following;
      // One that came behind the goodbye would begin a new lease, and changes would wait for an edge that is gone.
      await acknowledging;
      // A goodbye that does not arrive is made up for by the lapse of the lease.
      await source.leave().catch((err) => logger.debug({ err, feed: source.name }, 'the feed could not be left'));
    },
  };
}

/** Sends acknowledgements one at a time, the latest version first; those in between are left out. What it answers never rejects. */
function acknowledger(
  source: Pick<FeedSource<never>, 'name' | 'acknowledge'>,
  lease: Lease,
  stop: AbortController,
  deps: { clock: Clock; logger: Logger },
): (version: bigint) => Promise<void> {
  let latest = 0n;
  let sent: bigint | null = null;
  let sending: Promise<void> | null = null;

  const send = async (): Promise<void> => {
    while (sent !== latest && !stop.signal.aborted) {
      const version = latest;
      sent = version;
      const sentMs = deps.clock.monotonic();
      try {
        const { leaseMs, rewatch } = await source.acknowledge(version);
        if (rewatch) stop.abort();
        else if (!stop.signal.aborted) lease.renew(sentMs, leaseMs);
      } catch (err) {
        // The next event tries again; until then the lease runs on.
        deps.logger.debug({ err, feed: source.name }, 'the feed could not be acknowledged');
      }
    }
    sending = null;
  };

  return (version) => {
    latest = version;
    // A heartbeat repeats the version, and is acknowledged all the same: that renews the lease.
    sent = null;
    sending ??= send();
    return sending;
  };
}
