import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { forgetExpired } from '#shared/idempotency.ts';
import type { Logger } from '#shared/logger.ts';
import { type RecurringWork, startRecurringWork } from '#shared/recurring-work.ts';

type HousekeepingDeps = { database: Pick<ServiceDatabase, 'query' | 'pool'>; clock: Clock; logger: Logger };

const everyMs = 60_000;

/** Deletes what has served its time. */
export async function keepHouse({ database, clock }: Pick<HousekeepingDeps, 'database' | 'clock'>): Promise<void> {
  // From then on nobody can derive again the secrets that were made under these keys.
  while (await forgetExpired(database.pool, clock.now()));
  // An edge that was away for longer starts with an empty cache. The last change tells one that knows it that it misses nothing.
  await database.query({
    text: `delete from changes where changed_at < clock_timestamp() - interval '10 minutes' and version < (select version from feed)`,
    values: [],
  });
  await database.query({
    text: `delete from keepers where (seen_at < clock_timestamp() - interval '1 hour' or seen_at = 'infinity')
      and not exists (select from watchers where watchers.keeper_id = keepers.keeper_id)`,
    values: [],
  });
  // An edge repeats a batch for as long as it lives; one that could not report for a day counts a second time what it had reported.
  await database.query({
    text: `delete from use_batches where recorded_at < clock_timestamp() - interval '1 day'`,
    values: [],
  });
}

/** Keeps house every minute; several processes doing so do no harm. */
export const startHousekeeping = (deps: HousekeepingDeps): RecurringWork =>
  startRecurringWork({ name: 'the housekeeping of Keys', everyMs, round: () => keepHouse(deps), logger: deps.logger });
