import type { Client } from '@connectrpc/connect';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { startRecurringWork } from '#shared/recurring-work.ts';
import { asService } from '#shared/rpc/caller.ts';
import { type ChargeBatch, forgetCharged, leftBehind } from '../db/charge-batches.ts';
import type { UsageMetrics } from '../metrics.ts';

export type ChargeDeps = {
  database: Pick<ServiceDatabase, 'query'>;
  billing: Pick<Client<typeof BillingService>, 'charge'>;
  metrics: Pick<UsageMetrics, 'chargeRefused'>;
  logger: Logger;
};

/** Takes batches as they are stored. */
export type ChargeQueue = { add(batch: ChargeBatch): void };

type ChargeWorker = ChargeQueue & { close(): Promise<void> };

/** The most events in one call to Billing. */
const eventsMax = 1_000;
/** How much waits in memory while Billing is away; further batches are read back from the outbox. */
const eventsInMemoryMax = 20_000;
const timeoutMs = 10_000;
/** How long events gather before they are handed on: charging many costs little more than charging one. */
const gatherMs = 250;

/** How long Billing may take for the last events once the process is to stop, in milliseconds. */
const lastChargingMs = 3_000;

/** How often failed calls are repeated, and batches left by a dead process are looked for. */
const lookMs = 1_000;
/** Younger batches are in the memory of the process that stored them. */
const leftBehindAfterMs = 5_000;

/**
 * Hands events to Billing in the order in which they were stored, except that new ones do not wait for all that an outage left behind:
 * budgets and wallets count only what is charged. A batch leaves the outbox only when Billing has answered for it; if the
 * answer is lost it is sent again, and Billing charges each id once. Several workers on one outbox do no harm.
 */
export function startChargeWorker(
  { database, billing, metrics, logger }: ChargeDeps,
  lastMsMax = lastChargingMs,
): ChargeWorker {
  const givingUp = new AbortController();
  const options = { ...asService('usage'), timeoutMs, signal: givingUp.signal };
  let waiting: ChargeBatch[] = [];
  let eventsWaiting = 0;
  /** Whether new events may wake a round: not while one runs, which then looks for them itself, nor from a failed one to the next success. */
  let isReady = true;
  let lookedMs = Number.NEGATIVE_INFINITY;
  let gathering: NodeJS.Timeout | undefined;

  async function charge(batches: readonly ChargeBatch[]): Promise<void> {
    const events = batches.flatMap((batch) => batch.events);
    const { refused } = await billing.charge({ events }, options);
    for (const { eventId, reason } of refused) {
      metrics.chargeRefused();
      const event = events.find(({ id }) => id === eventId);
      logger.error(
        { eventId, reason, tenantId: event?.tenantId, event },
        'Billing refused a usage event for good: it is not charged',
      );
    }
    await forgetCharged(database, batches);
  }

  /** As many of the batches in memory as fit into one call. */
  function nextInMemory(): ChargeBatch[] {
    let events = 0;
    const fitting = waiting.findIndex((batch) => {
      events += batch.events.length;
      return events > eventsMax;
    });
    return waiting.slice(0, fitting === -1 ? undefined : Math.max(1, fitting));
  }

  /** Charges what is in memory, call by call; not all that comes meanwhile, which may be without end. */
  async function chargeWaiting(): Promise<void> {
    for (let left = waiting.length; left > 0; ) {
      const batches = nextInMemory();
      await charge(batches);
      left -= batches.length;
      waiting = waiting.slice(batches.length);
      for (const batch of batches) eventsWaiting -= batch.events.length;
    }
  }

  async function round(signal: AbortSignal): Promise<void> {
    clearTimeout(gathering);
    gathering = undefined;
    isReady = false;
    // Before a look: what has waited here for long would be found in the outbox as well.
    await chargeWaiting();
    const nowMs = performance.now();
    if (nowMs - lookedMs >= lookMs) {
      lookedMs = nowMs;
      while (!signal.aborted) {
        const batches = await leftBehind(database, { olderThanMs: leftBehindAfterMs, eventsMax });
        if (batches.length === 0) break;
        await charge(batches);
        if (!signal.aborted) await chargeWaiting();
      }
    }
    isReady = true;
    wakeSoon();
  }

  const work = startRecurringWork({
    name: 'passing usage events to Billing',
    everyMs: lookMs,
    firstAfterMs: lookMs,
    round,
    logger,
  });

  /** Makes sure that waiting events are handed on soon, or at once when they fill a call. */
  function wakeSoon(): void {
    if (!isReady || waiting.length === 0) return;
    gathering ??= setTimeout(work.wake, gatherMs);
    if (eventsWaiting >= eventsMax) work.wake();
  }

  return {
    add(batch) {
      if (eventsWaiting + batch.events.length > eventsInMemoryMax) return;
      waiting.push(batch);
      eventsWaiting += batch.events.length;
      wakeSoon();
    },
    async close() {
      const late = setTimeout(() => givingUp.abort(), lastMsMax);
      await work.close();
      clearTimeout(gathering);
      if (isReady) {
        isReady = false;
        await chargeWaiting().catch((err) => {
          logger.warn({ err }, 'the last usage events could not be passed to Billing; they wait in the outbox');
        });
      }
      clearTimeout(late);
    },
  };
}
