import { create } from '@bufbuild/protobuf';
import { MeteredUsageSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { isUniqueViolation, sqlState } from '#shared/db/errors.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { uuidv7, uuidv7Ms } from '#shared/ids.ts';
import { inTurns } from '#shared/in-turns.ts';
import { withPlainIds } from '#shared/plain-ids.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { storedLeases, storeEvents } from '../db/store-events.ts';
import type { UsageDeps, UsageRpc } from '../deps.ts';
import { refusalOf } from '../domain/usage-event.ts';

type Deps = Pick<UsageDeps, 'database' | 'partitions' | 'metrics' | 'charges' | 'machineClock'>;
type Rejection = { index: number; eventId: string; reason: string };

export const record =
  (deps: Deps): UsageRpc<'record'> =>
  async ({ events }, context) => {
    requireService(callerOf(context));
    try {
      const { storable, repeated, rejected } = await sift(deps, events);
      const stored = await store(deps, [...storable.values()].sort(byOrganizationAndId), repeated);
      observe(deps, stored);
      const duplicates = events.length - rejected.length - stored.length;
      deps.metrics.batch({ duplicates, rejected: rejected.length });
      return { accepted: stored.length, duplicates, rejected };
    } catch (error) {
      deps.metrics.batchRefused();
      throw error;
    }
  };

/** About a millisecond of work. */
const eventsPerTurn = 250;

/** Separates the events that can be stored, each id once, from those that repeat an id, and those that never can. */
async function sift({ partitions, machineClock }: Deps, events: readonly UsageEvent[]) {
  const nowMs = machineClock.now();
  const storable = new Map<string, UsageEvent>();
  const repeated: UsageEvent[] = [];
  const rejected: Rejection[] = [];
  const isPlaced = ({ id }: UsageEvent) => partitions.has(uuidv7Ms(id));
  let index = 0;
  for await (const slice of inTurns(events, eventsPerTurn)) {
    for (const given of slice) {
      const event = withPlainIds(given);
      const reason = refusalOf(event, nowMs) ?? (isPlaced(event) ? null : await retentionRefusal(partitions, event));
      if (reason !== null) rejected.push({ index, eventId: event.id, reason });
      else if (storable.has(event.id)) repeated.push(event);
      else storable.set(event.id, event);
      index += 1;
    }
  }
  return { storable, repeated, rejected };
}

async function retentionRefusal(partitions: Deps['partitions'], { id }: UsageEvent): Promise<string | null> {
  return (await partitions.ensure(uuidv7Ms(id))) ? null : 'the time in id is past retention';
}

/** Stores the events and hands them to Billing; returns those that were new. `repeated` are others with an id of theirs. */
async function store(
  { database, partitions, charges }: Deps,
  events: readonly UsageEvent[],
  repeated: readonly UsageEvent[],
): Promise<readonly UsageEvent[]> {
  if (events.length === 0) return [];
  const write = (kind: 'new' | 'repeated') =>
    sqlTransaction(database, async (client) => {
      const stored = kind === 'new' ? noLeases : await storedLeases(client, events);
      const fresh = stored.size === 0 ? events : events.filter(({ id }) => !stored.has(id));
      const due = fresh.filter(isChargeable);
      const batch = due.length === 0 ? null : { id: uuidv7(), events: due };
      await storeEvents(client, fresh, batch);
      return { fresh, batch, stored };
    });
  try {
    // Nearly all batches are entirely new.
    const { fresh, batch, stored } = await write('new').catch((error) => {
      if (isUniqueViolation(error)) return write('repeated');
      throw error;
    });
    if (batch !== null) charges?.add(batch);
    const uncounted = [...repeated, ...events.filter(({ id }) => stored.has(id))];
    if (uncounted.length > 0) {
      const counted = new Map([...stored, ...fresh.map(({ id, leaseIds }) => [id, leaseIds] as const)]);
      const returning = returningRoom(uncounted, counted);
      if (returning.length > 0) charges?.add({ id: uuidv7(), events: returning });
    }
    return fresh;
  } catch (error) {
    // "no partition of relation found for row": retention dropped it in the meantime. The shipper tries again.
    if (sqlState(error) === '23514') partitions.forget();
    throw error;
  }
}

const noLeases: ReadonlyMap<string, readonly string[]> = new Map();

/**
 * The answer of a job may be lost, and its call made again, under other leases if it needed room anew: then two events have one id, and no
 * charge gives back the room of the one that does not count. So another event does that, without a cost. It is not stored: should it be lost
 * with this process, the room is held for a week.
 */
function returningRoom(
  uncounted: readonly UsageEvent[],
  counted: ReadonlyMap<string, readonly string[]>,
): UsageEvent[] {
  return uncounted
    .filter(({ jobId }) => jobId !== '')
    .map((event) => ({ ...event, leaseIds: event.leaseIds.filter((lease) => !counted.get(event.id)!.includes(lease)) }))
    .filter(({ leaseIds }) => leaseIds.length > 0)
    .map((event) => ({ ...event, id: uuidv7(), usage: create(MeteredUsageSchema) }));
}

/** Whether Billing has anything to do for an event: a cost to charge, or a hold to give back. */
const isChargeable = ({ usage, leaseIds }: UsageEvent): boolean => usage!.costNanoUsd > 0n || leaseIds.length > 0;

/** The order of the events' primary key. */
const byOrganizationAndId = (a: UsageEvent, b: UsageEvent): number =>
  a.tenantId < b.tenantId ? -1 : a.tenantId > b.tenantId ? 1 : a.id < b.id ? -1 : 1;

function observe({ metrics, machineClock }: Deps, stored: readonly UsageEvent[]): void {
  const nowMs = machineClock.now();
  for (const { id, latencyMs } of stored) metrics.stored(nowMs - uuidv7Ms(id) - latencyMs);
}
