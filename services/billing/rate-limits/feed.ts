import type { RateLimitSnapshot } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { notify } from '#shared/db/notify.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { StatementRunner } from '#shared/db/run.ts';
import type { Logger } from '#shared/logger.ts';
import { openSnapshotFeed, type SnapshotFeed } from '#shared/snapshot-feed.ts';
import { readRateLimits } from './read-limits.ts';

const channel = 'billing_rate_limits';

/** Tells every Billing process that limits have changed, when the transaction of the change commits. */
export const touchRateLimits = (tx: StatementRunner): Promise<void> => notify(tx, channel);

/** All rate limits, as this Billing process last read them. */
export type RateLimitFeed = SnapshotFeed<RateLimitSnapshot>;

export const openRateLimitFeed = (
  { pool }: Pick<ServiceDatabase, 'pool'>,
  connection: DatabaseUrl,
  logger: Logger,
): Promise<RateLimitFeed> =>
  openSnapshotFeed({ name: 'rate limits', channel, read: () => readRateLimits(pool), connection, logger });
