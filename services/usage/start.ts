import type { ServiceImpl } from '@connectrpc/connect';
import type { Registry } from 'prom-client';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { createPartitions } from './db/partitions.ts';
import type { UsageDeps } from './deps.ts';
import { usageService } from './index.ts';
import { createUsageMetrics } from './metrics.ts';

export type StartedUsage = {
  implementation: Partial<ServiceImpl<typeof UsageService>>;
  /** Ends the database connections; calls in flight should have ended. */
  close(): Promise<void>;
};

/** Opens Usage on a migrated database. */
export async function startUsage(options: {
  connection: DatabaseUrl;
  auth: UsageDeps['auth'];
  registry: Registry;
  clock: Clock;
  logger: Logger;
}): Promise<StartedUsage> {
  const { connection, auth, registry, clock, logger } = options;
  const database = await openServiceDatabase({ service: 'usage', connection, entities: [], logger });
  const partitions = createPartitions(database);
  const metrics = createUsageMetrics(registry);
  return {
    implementation: usageService({ database, partitions, auth, metrics, clock }),
    close: () => database.close(),
  };
}
