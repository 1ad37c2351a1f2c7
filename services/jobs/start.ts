import type { ServiceImpl } from '@connectrpc/connect';
import pLimit from 'p-limit';
import type { Registry } from 'prom-client';
import type { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { startHoldingBilling } from './budget/holding-billing.ts';
import { largeBodiesAtOnce } from './db/bodies.ts';
import { SeenRoom } from './db/seen-room.ts';
import type { HoldingBilling, JobsDeps } from './deps.ts';
import { jobsService } from './index.ts';
import { createJobMetrics, showQueue } from './metrics.ts';
import { startHousekeeping } from './workers/housekeeping.ts';
import { wakeWorkers } from './workers/wake-workers.ts';

type StartedJobs = {
  implementation: ServiceImpl<typeof JobsService>;
  /** Ends the work that calls other services. `close` does so too. */
  stop(): Promise<void>;
  /** Ends the housekeeping and the database connections; calls in flight should have ended. */
  close(): Promise<void>;
};

/** Opens Jobs on a migrated database: the RPCs, the removal of expired jobs, and the renewal of holds. Workers are started separately. */
export async function startJobs(options: {
  connection: DatabaseUrl;
  billing: HoldingBilling;
  registry: Registry;
  clock: Clock;
  logger: Logger;
}): Promise<StartedJobs> {
  const { connection, registry, clock, logger } = options;
  const database = await openServiceDatabase({ service: 'jobs', connection, entities: [], logger });
  const holding = startHoldingBilling(options.billing, { clock, logger });
  const deps: JobsDeps = {
    database,
    billing: holding.billing,
    metrics: createJobMetrics(registry),
    largeWrites: pLimit(largeBodiesAtOnce),
    largeReads: pLimit(largeBodiesAtOnce),
    seenRoom: new SeenRoom(clock),
    wakeWorkers: wakeWorkers(database, logger),
    clock,
    logger,
  };
  showQueue(registry, database, logger);
  const housekeeping = startHousekeeping(deps);
  const stop = async () => {
    await Promise.all([housekeeping.close(), holding.close()]);
  };
  return {
    implementation: jobsService(deps),
    stop,
    close: async () => {
      await stop();
      await database.close();
    },
  };
}
