import type { ServiceImpl } from '@connectrpc/connect';
import type { Registry } from 'prom-client';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { type Clock, systemClock } from '#shared/clock.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { showOutbox } from '#shared/outbox-metrics.ts';
import { startRecurringWork } from '#shared/recurring-work.ts';
import { chargesWaiting } from './db/charge-batches.ts';
import { createPartitions } from './db/partitions.ts';
import { dropEmptyBuckets } from './db/rate-limit-buckets.ts';
import type { UsageDeps } from './deps.ts';
import { usageService } from './index.ts';
import { createUsageMetrics } from './metrics.ts';
import { type ChargeDeps, startChargeWorker } from './workers/charge.ts';
import { startDayGatherer } from './workers/gather-days.ts';
import { startPartitionKeeper } from './workers/keep-partitions.ts';

type StartedUsage = {
  implementation: ServiceImpl<typeof UsageService>;
  /** Ends the work that calls other services. `close` does so too. */
  stop(): Promise<void>;
  /** Ends the workers and the database connections; calls in flight should have ended. */
  close(): Promise<void>;
};

/** Two years, in which organizations may ask about a single call. Roll-ups are kept forever. */
const eventsKeptMonths = 24;

/** Opens Usage on a migrated database. */
export async function startUsage(options: {
  connection: DatabaseUrl;
  auth: UsageDeps['auth'];
  keys: UsageDeps['keys'];
  /** Without it, events wait in the outbox. */
  billing?: ChargeDeps['billing'];
  registry: Registry;
  clock: Clock;
  machineClock?: UsageDeps['machineClock'];
  logger: Logger;
}): Promise<StartedUsage> {
  const { connection, auth, keys, billing, registry, clock, machineClock = systemClock, logger } = options;
  const database = await openServiceDatabase({ service: 'usage', connection, entities: [], logger });
  const partitions = createPartitions(database);
  const metrics = createUsageMetrics(registry);
  showOutbox(registry, { service: 'usage', outbox: 'charges', logger, read: () => chargesWaiting(database) });
  const partitionKeeper = startPartitionKeeper({ database, monthsKept: eventsKeptMonths, logger });
  // Separate work, which must not delay partitions: without those no event is stored.
  const bucketDropper = startRecurringWork({
    name: 'removing empty rate limit buckets',
    everyMs: 3_600_000,
    round: () => dropEmptyBuckets(database),
    logger,
  });
  const dayGatherer = startDayGatherer({ database, logger });
  const charges = billing === undefined ? undefined : startChargeWorker({ database, billing, metrics, logger });
  const stop = async (): Promise<void> => charges?.close();
  return {
    implementation: usageService({ database, partitions, charges, auth, keys, metrics, clock, machineClock }),
    stop,
    close: async () => {
      await Promise.all([partitionKeeper.close(), bucketDropper.close(), dayGatherer.close()]);
      await stop();
      await database.close();
    },
  };
}
