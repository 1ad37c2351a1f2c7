import type { Client, ServiceImpl } from '@connectrpc/connect';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Partitions } from './db/partitions.ts';
import type { UsageMetrics } from './metrics.ts';
import type { ChargeQueue } from './workers/charge.ts';

/** What Usage's RPCs depend on; assembled in start.ts. */
export type UsageDeps = {
  database: ServiceDatabase;
  partitions: Partitions;
  /** Takes stored events to Billing; without it they wait in the outbox. */
  charges?: ChargeQueue;
  /** Knows the email addresses of users. */
  auth: Pick<Client<typeof AuthService>, 'getUsers'>;
  /** Tells the names of API keys. */
  keys: Pick<Client<typeof KeysService>, 'describeKeys'>;
  metrics: UsageMetrics;
  clock: Clock;
  /** Dates events: CLOCK does not move it. */
  machineClock: Pick<Clock, 'now'>;
};

/** The implementation of one RPC. */
export type UsageRpc<Name extends keyof ServiceImpl<typeof UsageService>> = ServiceImpl<typeof UsageService>[Name];
