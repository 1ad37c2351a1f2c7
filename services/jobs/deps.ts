import type { Client, ServiceImpl } from '@connectrpc/connect';
import type { LimitFunction } from 'p-limit';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import type { SeenRoom } from './db/seen-room.ts';
import type { JobMetrics } from './metrics.ts';

/** The part of Billing that holds room for jobs, and gives back what lost ones were charged. */
export type HoldingBilling = Pick<Client<typeof BillingService>, 'lease' | 'settle' | 'releaseHold' | 'voidCharge'>;

/** What Jobs' RPCs depend on; assembled in start.ts. */
export type JobsDeps = {
  database: ServiceDatabase;
  billing: HoldingBilling;
  metrics: JobMetrics;
  /** Limit concurrent writes and reads of large bodies: the others wait here instead of taking all connections. */
  largeWrites: LimitFunction;
  largeReads: LimitFunction;
  seenRoom: SeenRoom;
  /** Tells the workers that a job waits. */
  wakeWorkers(): void;
  clock: Clock;
  logger: Logger;
};

/** The implementation of one RPC. */
export type JobsRpc<Name extends keyof ServiceImpl<typeof JobsService>> = ServiceImpl<typeof JobsService>[Name];
