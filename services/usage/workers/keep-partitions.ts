import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { type RecurringWork, startRecurringWork } from '#shared/recurring-work.ts';

type PartitionKeeperDeps = {
  database: Pick<ServiceDatabase, 'query'>;
  /** How many whole months of events are kept besides the current one. Roll-ups are kept for longer. */
  monthsKept: number;
  logger: Logger;
};

const everyMs = 3_600_000;
/**
 * How many partitions are made in advance, the current month's included: if this worker is down for weeks no harm is done, since Record
 * makes missing ones.
 */
const monthsAhead = 3;

/**
 * Makes the partitions of the coming months and drops those past retention. The month is the database's: a process with a wrong clock must
 * not drop anything.
 */
export async function keepPartitions({ database, monthsKept, logger }: PartitionKeeperDeps): Promise<void> {
  await database.query({
    text: `select add_events_partition((date_trunc('month', now()) + make_interval(months => ahead))::date)
      from generate_series(0, $1::int - 1) as ahead`,
    values: [monthsAhead],
  });
  // Committed first, so that no event is stored in a partition that is about to be dropped.
  await database.query({
    text: `select keep_events_from((date_trunc('month', now()) - make_interval(months => $1::int))::date)`,
    values: [monthsKept],
  });
  for (;;) {
    const { rows } = await database.query<{ dropped: string | null }>({
      text: 'select drop_expired_events_partition() as dropped',
    });
    const dropped = rows[0]!.dropped;
    if (dropped === null) return;
    logger.info({ partition: dropped }, 'usage events past their retention were dropped');
  }
}

/** Runs every hour; several processes doing so do no harm. */
export const startPartitionKeeper = (deps: PartitionKeeperDeps): RecurringWork =>
  startRecurringWork({
    name: 'maintaining the partitions of usage events',
    everyMs,
    round: () => keepPartitions(deps),
    logger: deps.logger,
  });
