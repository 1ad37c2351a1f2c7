import { removeInBatches } from '#shared/db/remove-in-batches.ts';
import type { WorkerDeps } from './each-organization.ts';

/** Providers repeat an event for days, and on demand for a month. A later repeat changes nothing: what was booked is known for good. */
const keptMs = 90 * 86_400_000;
/** As many as a statement deletes in some tens of milliseconds. */
const removedAtOnce = 1_000;

/** Forgets which events of payment providers came long ago; returns how many. */
export async function forgetPaymentEvents({
  database,
  databaseNow,
  signal,
}: Pick<WorkerDeps, 'database' | 'databaseNow' | 'signal'>): Promise<number> {
  const old = {
    name: 'forget-payment-events',
    text: `delete from payment_events where (provider, event_id) in (
      select provider, event_id from payment_events where received_at < $1
      order by received_at limit ${removedAtOnce} for update skip locked)`,
    values: [new Date((await databaseNow(database.pool)) - keptMs)],
  };
  return removeInBatches(database, old, signal);
}
