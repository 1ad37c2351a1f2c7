import type { ServiceDatabase } from '#shared/db/orm.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import type { Logger } from '#shared/logger.ts';

export type DayGathererDeps = {
  database: Pick<ServiceDatabase, 'query' | 'pool'>;
  logger: Logger;
};

const everyMs = 3_600_000;
/** A day is gathered so long after its end: by then nearly all of its events are there, and the others do no harm. In hours. */
const settlingHours = 1;

/**
 * Rewrites the roll-ups of days that are over so that each organization's lie together. They come as calls do, all organizations' mixed,
 * and would be read one page each: a year of a large organization is tens of thousands of pages as it came, and some hundred once
 * gathered. The rows stay what they are, so that a late event adds to them as before. The day is that of the database's clock.
 */
export async function gatherDays({ database }: Pick<DayGathererDeps, 'database'>, signal: AbortSignal): Promise<void> {
  for (;;) {
    const { rows } = await database.query<{ day: string }>({
      text: `select next_day::text as day from gathered_days
        where (next_day + 1)::timestamp at time zone 'UTC' + $1 * interval '1 hour' < now()`,
      values: [settlingHours],
    });
    const day = rows[0]?.day;
    if (day === undefined) return;
    for (const tenantId of await organizationsOf(database, day)) {
      if (signal.aborted) return;
      await gatherDay(database, tenantId, day);
    }
    await database.query({
      text: 'update gathered_days set next_day = next_day + 1 where next_day = $1',
      values: [day],
    });
  }
}

/** Who has roll-ups of a day, by one look into the index for each organization there is. */
async function organizationsOf(database: Pick<ServiceDatabase, 'query'>, day: string): Promise<string[]> {
  const { rows } = await database.query<{ tenant_id: string }>({
    text: `with recursive organizations as (
        (select tenant_id from daily_rollups order by tenant_id limit 1)
        union all
        select (select tenant_id from daily_rollups where tenant_id > organizations.tenant_id order by tenant_id limit 1)
        from organizations where tenant_id is not null
      )
      select tenant_id from organizations where exists (select from daily_rollups
        where daily_rollups.tenant_id = organizations.tenant_id and bucket_start = $1::timestamp at time zone 'UTC')`,
    values: [day],
  });
  return rows.map(({ tenant_id }) => tenant_id);
}

/** An organization's day of both tiers. A batch with a late event of it waits for the transaction, then adds to the new rows. */
const gatherDay = (database: DayGathererDeps['database'], tenantId: string, day: string): Promise<void> =>
  sqlTransaction(database, async (client) => {
    // What a crash undoes is gathered again.
    await client.query('set local synchronous_commit = off');
    for (const tier of ['rollups', 'daily_rollups']) {
      await client.query({
        name: `gather-${tier}`,
        text: `with gathered as (
            delete from ${tier} where tenant_id = $1 and bucket_start >= $2::timestamp at time zone 'UTC'
              and bucket_start < ($2::timestamp + interval '1 day') at time zone 'UTC' returning *
          )
          insert into ${tier} select * from gathered order by bucket_start, user_id`,
        values: [tenantId, day],
      });
    }
  });

/** Gathers now and every hour; several processes doing so do no harm. Answers how to stop. */
export function startDayGatherer(deps: DayGathererDeps): () => Promise<void> {
  const stop = new AbortController();
  let gathering: Promise<void> | null = null;
  const gather = (): void => {
    gathering ??= gatherDays(deps, stop.signal)
      .catch((err) => deps.logger.warn({ err }, 'roll-ups of past days could not be gathered'))
      .finally(() => {
        gathering = null;
      });
  };
  gather();
  const timer = setInterval(gather, everyMs).unref();
  return async () => {
    clearInterval(timer);
    stop.abort();
    await gathering;
  };
}
