import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '#shared/logger.ts';
import { RepeatedFailures } from '#shared/repeated-failures.ts';
import type { Batch, EventSource } from './event-codec.ts';
import type { AdoptedJournal } from './orphans.ts';

type ShipperOptions<Event> = {
  journal: EventSource<Event>;
  /**
   * Stores events; idempotent by event id, and retried after a failure. Resolves with the places of those that can never be stored, and why.
   */
  record(events: readonly Event[], signal: AbortSignal): Promise<readonly { index: number; reason: string }[]>;
  logger: Logger;
};

export type ShipperStats = {
  /** The number of events that Usage refused for good; each is in the log with all its fields. */
  refusedEvents: number;
  failedCalls: number;
};

type Shipper<Event> = {
  /** Ships a dead process's journal as well, beside this process's own. */
  adopt(journal: AdoptedJournal<Event>): void;
  stats(): ShipperStats;
  /**
   * How long the oldest events that are on their way have waited, in milliseconds; those of a dead process since its journal was adopted. 0
   * when there are none.
   */
  lagMs(nowMs: number): number;
  /** Ships what is there, for at most `deadlineMs`; the rest stays in the journal. */
  close(deadlineMs: number): Promise<void>;
};

const retryMinMs = 100;
const retryMaxMs = 2000;

/**
 * Carries events from the journal to Usage in batches, one call at a time, and acknowledges each batch only once it is stored. Nothing
 * waits for it: while Usage is away the journal grows. After a crash between the two steps, a batch is sent again.
 */
export function createShipper<Event>(options: ShipperOptions<Event>): Shipper<Event> {
  const { logger } = options;
  const closing = new AbortController();
  const giveUp = new AbortController();
  const counts: ShipperStats = { refusedEvents: 0, failedCalls: 0 };
  const running = new Set<Promise<void>>();
  const onTheirWay = new Set<Batch<Event>>();
  const storing = new RepeatedFailures('storing events in Usage', logger);
  /** By journal: that of an ended process which cannot be read is adopted again, every few seconds. */
  const readings = new Map<string, RepeatedFailures>();

  /** Retries until the events are stored; returns false if the deadline of `close` came first. */
  async function store(events: readonly Event[]): Promise<boolean> {
    for (let failures = 0; !giveUp.signal.aborted; failures += 1) {
      try {
        const refused = await options.record(events, giveUp.signal);
        storing.succeeded();
        counts.refusedEvents += refused.length;
        for (const { index, reason } of refused) {
          logger.error(
            { event: events[index], reason },
            'Usage refused an event for good: it is not charged, and kept only in this line',
          );
        }
        return true;
      } catch (error) {
        counts.failedCalls += 1;
        storing.failed(error, 'failed; they wait in the journal');
        const backOffMs = Math.min(retryMaxMs, retryMinMs * 2 ** failures) * (0.5 + Math.random() / 2);
        await delay(backOffMs, undefined, { signal: giveUp.signal }).catch(() => {});
      }
    }
    return false;
  }

  async function ship(source: EventSource<Event>): Promise<void> {
    const { name } = source;
    const reading = readings.get(name) ?? new RepeatedFailures(`reading the journal ${name}`, logger, 0);
    readings.set(name, reading);
    for (let failures = 0; !giveUp.signal.aborted; ) {
      try {
        const batch = await source.nextBatch(closing.signal);
        // After a failure it is adopted again, and may be read up to the same place.
        if (batch === null && failures > 0) return;
        if (batch === null || failures > 0) reading.succeeded();
        if (batch === null) return;
        onTheirWay.add(batch);
        const isStored = await store(batch.events);
        onTheirWay.delete(batch);
        if (isStored && !giveUp.signal.aborted) source.acknowledge(batch);
        failures = 0;
      } catch (error) {
        reading.failed(error, 'failed; trying again');
        failures += 1;
        await delay(Math.min(retryMaxMs, retryMinMs * 2 ** failures), undefined, { signal: closing.signal }).catch(
          () => {},
        );
        if (closing.signal.aborted) return;
      }
    }
  }

  function start(work: Promise<void>): void {
    running.add(work);
    void work.finally(() => running.delete(work));
  }

  start(ship(options.journal));
  return {
    adopt: (journal) => start(ship(journal).finally(() => journal.release())),
    stats: () => ({ ...counts }),
    lagMs: (nowMs) => Math.max(0, ...onTheirWay.values().map(({ sinceMs }) => nowMs - sinceMs)),
    async close(deadlineMs) {
      closing.abort();
      const deadline = setTimeout(() => giveUp.abort(), deadlineMs);
      // A call that ignores its signal must not delay the end of the process.
      const gaveUp = new Promise((resolve) => giveUp.signal.addEventListener('abort', resolve, { once: true }));
      await Promise.race([Promise.all(running), gaveUp]);
      clearTimeout(deadline);
      giveUp.abort();
      storing.ended('failed to the end; the next process with this DATA_DIR ships them');
    },
  };
}
