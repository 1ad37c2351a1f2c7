import { create } from '@bufbuild/protobuf';
import { type UsageEvent, UsageEventSchema } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { type EventRow, eventMessage } from './event-rows.ts';

/** Events of one transaction which Billing is to charge, under the id of their row in the outbox. */
export type ChargeBatch = { id: string; events: readonly UsageEvent[] };

type Database = Pick<ServiceDatabase, 'query'>;

/** The oldest batch which has stood in the outbox for a while; null when there is none. */
export async function leftBehind(database: Database, olderThanMs: number): Promise<ChargeBatch | null> {
  const { rows } = await database.query<{ id: string }>({
    name: 'charge-batch-left',
    text: `select id from charge_batches where stored_at <= now() - $1 * interval '1 millisecond' order by id limit 1`,
    values: [olderThanMs],
  });
  if (rows.length === 0) return null;
  const { id } = rows[0]!;
  const events = await database.query<EventRow>({
    text: `select events.* from charge_batches
      cross join lateral unnest(tenant_ids, event_ids) as due (tenant_id, event_id)
      join events on events.tenant_id = due.tenant_id and events.id = due.event_id
      where charge_batches.id = $1`,
    values: [id],
  });
  return { id, events: events.rows.map((row) => create(UsageEventSchema, eventMessage(row))) };
}

/** Takes batches out of the outbox, once Billing has answered for them. */
export async function forgetCharged(database: Database, batches: readonly ChargeBatch[]): Promise<void> {
  await database.query({
    name: 'charge-batches-done',
    text: 'delete from charge_batches where id = any($1::uuid[])',
    values: [batches.map(({ id }) => id)],
  });
}
