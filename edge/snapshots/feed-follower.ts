import type { Clock } from '#shared/clock.ts';
import type { Logger } from '#shared/logger.ts';
import { followStream } from '#shared/rpc/follow-stream.ts';
import { Lease } from './lease.ts';

/** A service's feed: its RPCs, and what to do with an event. */
type FeedSource<Event extends { version: bigint }> = {
  /** What it is, for the log, e.g. `the feed of keys`. */
  name: string;
  watch(signal: AbortSignal): AsyncIterable<Event>;
  acknowledge(version: bigint): Promise<{ leaseMs: number; rewatch: boolean }>;
  /** Says goodbye, so that nobody waits for this edge any longer. */
  leave(): Promise<unknown>;
  apply(event: Event): void;
};

type FeedFollower = {
  /** Whether the edge may decide by what the feed has told it. */
  readonly isLive: boolean;
  close(): Promise<void>;
};

/** Follows a feed and acknowledges each event, which renews the lease. Reopens the feed when its service no longer knows this edge. */
export function followFeed<Event extends { version: bigint }>(
  source: FeedSource<Event>,
  deps: { clock: Clock; logger: Logger },
): FeedFollower {
  const { clock, logger } = deps;
  const lease = new Lease(clock);
  let acknowledge: (version: bigint) => Promise<void>;
  /** The running acknowledgements; they may outlive their stream. */
  let acknowledging: Promise<void> = Promise.resolve();
  const following = followStream<Event>({
    name: source.name,
    open(signal) {
      acknowledge = acknowledger(source, lease, { signal, reopen: () => following.reopen() }, { clock, logger });
      return source.watch(signal);
    },
    onMessage(event) {
      lease.heard();
      source.apply(event);
      const latest = acknowledge(event.version);
      acknowledging = acknowledging.then(() => latest);
      return true;
    },
    logger,
  });

  return {
    get isLive() {
      return lease.isValid;
    },
    async close() {
      const ended = following.close();
      lease.end();
      await ended;
      // An acknowledgement that arrived after the goodbye would begin a new lease, and changes would wait for an edge that is gone.
      await acknowledging;
      // If the goodbye does not arrive, the lease lapses instead.
      await source.leave().catch((err) => logger.debug({ err }, `${source.name} could not be left`));
    },
  };
}

/** Sends acknowledgements one at a time, the latest version first; versions in between are skipped. The returned promise never rejects. */
function acknowledger(
  source: Pick<FeedSource<never>, 'name' | 'acknowledge'>,
  lease: Lease,
  stream: { signal: AbortSignal; reopen(): void },
  deps: { clock: Clock; logger: Logger },
): (version: bigint) => Promise<void> {
  let latest = 0n;
  let sent: bigint | null = null;
  let sending: Promise<void> | null = null;

  const send = async (): Promise<void> => {
    while (sent !== latest && !stream.signal.aborted) {
      const version = latest;
      sent = version;
      const sentMs = deps.clock.monotonic();
      try {
        const { leaseMs, rewatch } = await source.acknowledge(version);
        if (stream.signal.aborted) break;
        if (rewatch) stream.reopen();
        else lease.renew(sentMs, leaseMs);
      } catch (err) {
        // The next event tries again; until then the lease runs on.
        deps.logger.debug({ err }, `${source.name} could not be acknowledged`);
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
