import { randomInt } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@connectrpc/connect';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Logger } from '#shared/logger.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { openJournal } from '../../services/models/metering/journal.ts';
import { type MeteredEvent, meteredEventCodec, usageEvent } from '../../services/models/metering/metered-event.ts';
import { createShipper } from '../../services/models/metering/shipper.ts';

/** How long after the ends of their calls events were stored, in milliseconds, ascending. */
type Lags = readonly number[];

type Metering = { pattern: MeteredEvent; directory: string; logger: Logger };

/**
 * Sends calls of one organization through the journal and the shipper to Usage, as a gateway process does, at a steady rate; `pattern`
 * gives what each of them used. Returns the time from each end to the answer of the Record that stored it.
 */
export async function measureLags(
  usage: Client<typeof UsageService>,
  { perSecond, seconds, ...metering }: Metering & { perSecond: number; seconds: number },
): Promise<Lags> {
  const endedMs = new Map<string, number>();
  const lags: number[] = [];
  const { journal, call } = open(metering);
  const shipper = ship(usage, journal, metering, (events) => {
    const nowMs = performance.now();
    for (const { id } of events) lags.push(nowMs - endedMs.get(id)!);
  });
  const startedMs = performance.now();
  for (let sent = 0; sent < perSecond * seconds; ) {
    const due = Math.min(perSecond * seconds, ((performance.now() - startedMs) / 1_000) * perSecond);
    for (; sent < due; sent += 1) endedMs.set(call(), performance.now());
    await delay(1);
  }
  await shipper.close(10_000);
  await journal.close();
  return lags.sort((a, b) => a - b);
}

/** Meters calls while nothing takes them, and returns how many per second are stored once something does. */
export async function measureDrain(
  usage: Client<typeof UsageService>,
  { calls, ...metering }: Metering & { calls: number },
): Promise<number> {
  const { journal, call } = open(metering);
  for (let sent = 0; sent < calls; sent += 1) {
    call();
    // The journal writes at the end of a turn of the loop.
    if (sent % 1_000 === 999) await delay(0);
  }
  const startedMs = performance.now();
  const shipper = ship(usage, journal, metering, () => {});
  while (journal.stats().pendingEvents > 0) await delay(10);
  const seconds = (performance.now() - startedMs) / 1_000;
  await shipper.close(10_000);
  await journal.close();
  return calls / seconds;
}

function open({ pattern, directory, logger }: Metering) {
  const journal = openJournal({
    directory,
    codec: meteredEventCodec,
    clock: systemClock,
    logger,
    onFatal(error) {
      throw error;
    },
  });
  return {
    journal,
    /** Meters one call, and returns the id of its event. */
    call(): string {
      const event = { ...pattern, id: uuidv7(), outputTokens: randomInt(800) };
      journal.begin(event.id, event);
      journal.end(event.id, event);
      return event.id;
    },
  };
}

const ship = (
  usage: Client<typeof UsageService>,
  journal: ReturnType<typeof open>['journal'],
  { logger }: Metering,
  onStored: (events: readonly MeteredEvent[]) => void,
) =>
  createShipper<MeteredEvent>({
    journal,
    async record(events, signal) {
      const caller = { contextValues: callerContext(serviceCaller('inference')) };
      const { rejected } = await usage.record({ events: events.map(usageEvent) }, { ...caller, signal });
      onStored(events);
      return rejected;
    },
    logger,
  });
