import { NIL } from 'uuid';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import type { Logger } from '#shared/logger.ts';
import { messageOf } from '#shared/message-of.ts';
import { type RecurringWork, startRecurringWork } from '#shared/recurring-work.ts';
import { addToDaysAndWeeks, rollUpKey, rollUpSums } from '../db/store-events.ts';

type DayGathererDeps = {
  database: Pick<ServiceDatabase, 'query' | 'pool'>;
  logger: Logger;
};

const everyMs = 3_600_000;
/** How long after its end a day is gathered, in hours: by then nearly all of its events have arrived, and later ones do no harm. */
const settlingHours = 1;
/** How long a day may take, in milliseconds: one of a large organization has hundreds of thousands of rows. */
const gatheringMsMax = 300_000;

/**
 * Sums the roll-ups of past days by day and by week, and rewrites them so that those of each organization are adjacent. They arrive as
 * calls do, with all organizations mixed, one to a page: a year of a large organization is tens of thousands of pages before gathering, and
 * some hundred after it.
 *
 * Each roll-up row records whether its day, and with it its week, includes it. So reports are right at every moment: a late event is added
 * to its day and week too if its row is included already, else by the next round. Whether a day is over goes by the database's clock. A day that cannot be
 * gathered holds up no other; the round rejects at its end with the first one's error.
 */
export async function gatherDays({ database }: Pick<DayGathererDeps, 'database'>, signal: AbortSignal): Promise<void> {
  let failure: Error | undefined;
  let place: { tenantId: string; from: string } = { tenantId: NIL, from: '-infinity' };
  while (!signal.aborted) {
    const next = await nextOutsideDay(database, place);
    if (next === undefined) break;
    const { tenant_id, day, day_end, is_over } = next;
    if (is_over) {
      await gatherDay(database, { tenantId: tenant_id, day }, signal).catch((cause) => {
        const where = `the usage of organization ${tenant_id} on ${day.slice(0, 10)}`;
        failure ??= new Error(`${where} could not be summed up: ${messageOf(cause)}`, { cause });
      });
    }
    // Goes through the organizations one by one, and each day of theirs once.
    place = { tenantId: tenant_id, from: is_over ? day_end : 'infinity' };
  }
  if (failure !== undefined) throw failure;
}

/** The next day of an organization with a row that the day does not include: one look into the index, however many rows there are. */
async function nextOutsideDay(database: Pick<ServiceDatabase, 'query'>, place: { tenantId: string; from: string }) {
  const { rows } = await database.query<{ tenant_id: string; day: string; day_end: string; is_over: boolean }>({
    name: 'next-outside-day',
    text: `select tenant_id, date_trunc('day', bucket_start, 'UTC')::text as day,
        (date_trunc('day', bucket_start, 'UTC') + interval '24 hours')::text as day_end,
        bucket_start < date_trunc('day', now() - $3 * interval '1 hour', 'UTC') as is_over
      from rollups where not in_day and (tenant_id, bucket_start) >= ($1, $2::timestamptz)
      order by tenant_id, bucket_start limit 1`,
    values: [place.tenantId, place.from, settlingHours],
  });
  return rows[0];
}

const sums = rollUpSums.join(', ');

/** An organization's day. A batch with a late event for it waits for the transaction, then adds to the new rows. */
const gatherDay = (
  database: DayGathererDeps['database'],
  { tenantId, day }: { tenantId: string; day: string },
  signal: AbortSignal,
): Promise<void> =>
  sqlTransaction(
    database,
    async (client) => {
      await client.query({
        name: 'gather-day',
        text: `with gathered as (
          delete from rollups where tenant_id = $1 and bucket_start >= $2::timestamptz
            and bucket_start < $2::timestamptz + interval '24 hours' returning *
        ),
        rewritten as (
          insert into rollups (${rollUpKey}, ${sums}, in_day) select ${rollUpKey}, ${sums}, true from gathered order by bucket_start, user_id
        ),
        uncounted as (select * from gathered where not in_day),
        ${addToDaysAndWeeks('uncounted')}`,
        values: [tenantId, day],
      });
    },
    // What a crash or a stop undoes is gathered again.
    { settings: { synchronous_commit: 'off', statement_timeout: gatheringMsMax }, signal },
  );

/** Gathers every hour; several processes doing so do no harm. */
export const startDayGatherer = (deps: DayGathererDeps): RecurringWork =>
  startRecurringWork({
    name: 'summing up the usage of past days',
    everyMs,
    round: (signal) => gatherDays(deps, signal),
    logger: deps.logger,
  });
