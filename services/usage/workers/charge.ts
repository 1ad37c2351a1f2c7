import type { Client } from '@connectrpc/connect';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
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

type ChargeWorker = ChargeQueue & {
  /** Hands on everything that waits; rejects when Billing or the database is out of reach, without losing anything. */
  drain(): Promise<void>;
  close(): Promise<void>;
};

/** The most events in one call to Billing. */
const eventsMax = 1_000;
/** How much waits in memory while Billing is away; further batches are read back from the outbox. */
const eventsInMemoryMax = 20_000;
const timeoutMs = 10_000;
/** How long events gather before they are handed on: charging many costs little more than charging one. */
const gatherMs = 250;

/** How often failed calls are repeated, and batches left by a dead process are looked for. */
const lookMs = 1_000;
/** Younger batches are in the memory of the process that stored them. */
const leftBehindAfterMs = 5_000;

/**
 * Hands events to Billing in the order in which they were stored. A batch leaves the outbox only when Billing has answered for it; if the
 * answer is lost it is sent again, and Billing charges each id once. Several workers on one outbox do no harm.
 */
export function startChargeWorker({ database, billing, metrics, logger }: ChargeDeps): ChargeWorker {
  const options = { ...asService('usage'), timeoutMs };
  let waiting: ChargeBatch[] = [];
  let eventsWaiting = 0;
  let isCharging = false;
  /** Failures since Billing last answered. */
  let failures = 0;
  let isClosed = false;
  let gathering: NodeJS.Timeout | undefined;
  let turn: Promise<void> = Promise.resolve();

  async function charge(batches: readonly ChargeBatch[]): Promise<void> {
    const events = batches.flatMap((batch) => batch.events);
    if (events.length > 0) {
      const { refused } = await billing.charge({ events }, options);
      for (const { eventId, reason } of refused) {
        metrics.chargeRefused();
        const event = events.find(({ id }) => id === eventId);
        logger.error(
          { eventId, reason, tenantId: event?.tenantId, event },
          'Billing refused a usage event for good: it is not charged',
        );
      }
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

  async function chargeNext(): Promise<void> {
    const batches = nextInMemory();
    if (batches.length === 0) return;
    await charge(batches);
    waiting = waiting.slice(batches.length);
    for (const batch of batches) eventsWaiting -= batch.events.length;
  }

  /** Makes sure that waiting events are handed on soon, or at once when they fill a call. */
  function wake(): void {
    if (failures > 0 || isClosed || isCharging) return;
    gathering ??= setTimeout(start, gatherMs);
    if (eventsWaiting >= eventsMax) start();
  }

  function start(): void {
    clearTimeout(gathering);
    gathering = undefined;
    isCharging = true;
    attempt(async () => {
      try {
        do await chargeNext();
        while (eventsWaiting >= eventsMax);
      } finally {
        isCharging = false;
      }
      if (waiting.length > 0) wake();
    });
  }

  async function drainAll(olderThanMs: number): Promise<void> {
    while (waiting.length > 0) await chargeNext();
    for (;;) {
      const batches = await leftBehind(database, { olderThanMs, eventsMax });
      if (batches.length === 0) return;
      await charge(batches);
    }
  }

  /** One after the other: two at once would send the same events. */
  function inTurn(work: () => Promise<void>): Promise<void> {
    const mine = turn.then(work);
    turn = mine.catch(() => {});
    return mine;
  }

  function attempt(work: () => Promise<void>): void {
    inTurn(work).then(
      () => {
        if (failures > 0) logger.info({ failures }, 'Billing accepts usage events again');
        failures = 0;
      },
      (err) => {
        if (failures === 0)
          logger.warn({ err }, 'usage events could not be passed to Billing; they wait in the outbox');
        failures += 1;
      },
    );
  }

  const timer = setInterval(() => attempt(() => drainAll(leftBehindAfterMs)), lookMs).unref();
  return {
    add(batch) {
      if (eventsWaiting + batch.events.length > eventsInMemoryMax) return;
      waiting.push(batch);
      eventsWaiting += batch.events.length;
      wake();
    },
    drain: () => inTurn(() => drainAll(0)),
    async close() {
      clearInterval(timer);
      clearTimeout(gathering);
      // What is not taken now waits in the outbox.
      if (failures === 0 && !isClosed) attempt(() => drainAll(leftBehindAfterMs));
      isClosed = true;
      await turn;
    },
  };
}
