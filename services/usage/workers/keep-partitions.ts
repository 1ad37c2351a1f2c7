import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { type RecurringWork, startRecurringWork } from '#shared/recurring-work.ts';

type PartitionKeeperDeps = {
  database: Pick<ServiceDatabase, 'query'>;
  /** How many whole months of events are kept besides the current one. Roll-ups stay. */
  monthsKept: number;
  logger: Logger;
};

const everyMs = 3_600_000;
/** Partitions made ahead, the current month's included: an outage of this worker for weeks does no harm, as Record makes what lacks. */
const monthsAhead = 3;

/**
 * Makes the partitions of the coming months and drops those past retention. The month is the database's: an edge whose clock
 * is wrong must not drop anything.
 */
export async function keepPartitions({ database, monthsKept, logger }: PartitionKeeperDeps): Promise<void> {
  await database.query({
    text: `select add_events_partition((date_trunc('month', now()) + make_interval(months => ahead))::date)
      from generate_series(0, $1::int - 1) as ahead`,
    values: [monthsAhead],
  });
  // Committed first, so that no event is stored where a partition is about to go.
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
    logger.info({ partition: dropped }, 'events past retention were dropped');
  }
}

/** Keeps partitions every hour; several processes doing so do no harm. */
export const startPartitionKeeper = (deps: PartitionKeeperDeps): RecurringWork =>
  startRecurringWork({
    name: 'the keeping of partitions',
    everyMs,
    round: () => keepPartitions(deps),
    logger: deps.logger,
  });
