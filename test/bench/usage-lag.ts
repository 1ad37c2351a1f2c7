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

/** How long after their calls' ends events were stored, in milliseconds, ascending. */
export type Lags = readonly number[];

/**
 * Sends calls of one organization through the journal and the shipper to Usage, as a gateway process does, at a steady rate; `pattern`
 * is what each of them used. Answers the time from each end to the answer of the Record that stored it.
 */
export async function measureLags(
  usage: Client<typeof UsageService>,
  options: { pattern: MeteredEvent; perSecond: number; seconds: number; directory: string; logger: Logger },
): Promise<Lags> {
  const { pattern, perSecond, seconds, directory, logger } = options;
  const caller = { contextValues: callerContext(serviceCaller('inference')) };
  const endedMs = new Map<string, number>();
  const lags: number[] = [];
  const journal = openJournal({
    directory,
    codec: meteredEventCodec,
    clock: systemClock,
    logger,
    onFatal(error) {
      throw error;
    },
  });
  const shipper = createShipper<MeteredEvent>({
    journal,
    async record(events, signal) {
      await usage.record({ events: events.map(usageEvent) }, { ...caller, signal });
      const nowMs = performance.now();
      for (const { id } of events) lags.push(nowMs - endedMs.get(id)!);
    },
    clock: systemClock,
    logger,
  });
  const startedMs = performance.now();
  for (let sent = 0; sent < perSecond * seconds; ) {
    const due = Math.min(perSecond * seconds, ((performance.now() - startedMs) / 1_000) * perSecond);
    for (; sent < due; sent += 1) {
      const event = { ...pattern, id: uuidv7(), outputTokens: randomInt(800) };
      journal.begin(event.id, event);
      endedMs.set(event.id, performance.now());
      journal.end(event.id, event);
    }
    await delay(1);
  }
  await shipper.close(10_000);
  await journal.close();
  return lags.sort((a, b) => a - b);
}
