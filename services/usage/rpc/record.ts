import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { errorCode } from '#shared/db/errors.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { uuidv7Ms } from '#shared/ids.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { monthOf } from '../db/partitions.ts';
import { storeEvents } from '../db/store-events.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { refusalOf } from '../domain/usage-event.ts';

type Deps = Pick<UsageDeps, 'database' | 'partitions' | 'metrics' | 'clock'>;
type Rejection = { index: number; eventId: string; reason: string };

export const record =
  (deps: Deps): UsageRpc<'record'> =>
  async ({ events }, context) => {
    requireService(callerOf(context));
    try {
      const { storable, rejected } = await sift(deps, events);
      const stored = await store(deps, storable);
      const duplicates = storable.length - stored.length;
      observe(deps, stored);
      deps.metrics.batch({ duplicates, rejected: rejected.length });
      return { accepted: stored.length, duplicates, rejected };
    } catch (error) {
      deps.metrics.batchRefused();
      throw error;
    }
  };

/** Parts the events that can be stored from those that never can. */
async function sift({ partitions, clock }: Deps, events: readonly UsageEvent[]) {
  const nowMs = clock.now();
  const storable: UsageEvent[] = [];
  const rejected: Rejection[] = [];
  for (const [index, event] of events.entries()) {
    const reason = refusalOf(event, nowMs) ?? (await retentionRefusal(partitions, event));
    if (reason === null) storable.push(event);
    else rejected.push({ index, eventId: event.id, reason });
  }
  return { storable, rejected };
}

async function retentionRefusal(partitions: Deps['partitions'], event: UsageEvent): Promise<string | null> {
  return (await partitions.ensure(monthOf(uuidv7Ms(event.id)))) ? null : 'the time in id is past retention';
}

/** The events which were not there before. */
async function store({ database, partitions }: Deps, events: readonly UsageEvent[]): Promise<UsageEvent[]> {
  if (events.length === 0) return [];
  try {
    const ids = await sqlTransaction(database, (client) => storeEvents(client, events));
    // A batch may hold an event twice; it was stored once.
    return events.filter(({ id }) => ids.delete(id.toLowerCase()));
  } catch (error) {
    // "no partition of relation found for row": retention dropped it meanwhile. The shipper's next try is told so.
    if (errorCode(error) === '23514') partitions.forget();
    throw error;
  }
}

function observe({ metrics, clock }: Deps, stored: readonly UsageEvent[]): void {
  const nowMs = clock.now();
  for (const { id, latencyMs } of stored) metrics.stored(nowMs - uuidv7Ms(id) - latencyMs);
}
