import { create } from '@bufbuild/protobuf';
import { type UsageEvent, UsageEventSchema } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Waiting } from '#shared/outbox-metrics.ts';
import { type EventRow, eventMessage } from './event-rows.ts';

/** One transaction's events for Billing to charge, under the id of their row in the outbox. */
export type ChargeBatch = { id: string; events: readonly UsageEvent[] };

type Database = Pick<ServiceDatabase, 'query'>;

/**
 * The oldest batches that have been in the outbox for a while, together at most `eventsMax` events unless the first alone has more. One with a
 * time in the future was stored before the database's clock was set back.
 */
export async function leftBehind(
  database: Database,
  { olderThanMs, eventsMax }: { olderThanMs: number; eventsMax: number },
): Promise<ChargeBatch[]> {
  const { rows } = await database.query<EventRow & { batch_id: string }>({
    name: 'charge-batches-left',
    text: `with oldest as (
        select * from charge_batches
        where stored_at <= now() - $1 * interval '1 millisecond' or stored_at > now() + interval '10 seconds'
        order by id limit 100
      ),
      counted as (
        select *, sum(cardinality(event_ids)) over (order by id) as events_so_far, row_number() over (order by id) as place
        from oldest
      )
      select counted.id as batch_id, found.* from counted
        cross join lateral unnest(tenant_ids, event_ids) as due (tenant_id, event_id)
        cross join lateral (
          -- By "offset" each is looked up by itself: Postgres expects so many that it would read all events that are stored.
          select * from events where events.tenant_id = due.tenant_id and events.id = due.event_id offset 0) as found
      where events_so_far <= $2 or place = 1`,
    values: [olderThanMs, eventsMax],
  });
  const batches = Map.groupBy(rows, ({ batch_id }) => batch_id);
  return [...batches].map(([id, events]) => ({
    id,
    events: events.map((row) => create(UsageEventSchema, eventMessage(row))),
  }));
}

/** How many batches are in the outbox. */
export async function chargesWaiting(database: Database): Promise<Waiting> {
  const { rows } = await database.query<{ count: bigint; age: number }>({
    name: 'charge-batches-waiting',
    text: `select count(*), coalesce(extract(epoch from now() - min(stored_at)), 0)::float8 as age from charge_batches`,
  });
  return { count: Number(rows[0]!.count), oldestSeconds: rows[0]!.age };
}

/** Removes batches from the outbox, once Billing has answered for them. */
export async function forgetCharged(database: Database, batches: readonly ChargeBatch[]): Promise<void> {
  await database.query({
    name: 'charge-batches-done',
    text: 'delete from charge_batches where id = any($1::uuid[])',
    values: [batches.map(({ id }) => id)],
  });
}
