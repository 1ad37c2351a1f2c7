import type pg from 'pg';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { type RollUp, rollUp } from '../domain/roll-up.ts';
import type { ChargeBatch } from './charge-batches.ts';
import { copyEvents } from './copy-events.ts';

const summed: readonly (readonly [name: string, read: (sums: RollUp) => number | bigint])[] = [
  ['requests', ({ requests }) => requests],
  ['successful_requests', ({ successfulRequests }) => successfulRequests],
  ['input_tokens', ({ inputTokens }) => inputTokens],
  ['cached_input_tokens', ({ cachedInputTokens }) => cachedInputTokens],
  ['output_tokens', ({ outputTokens }) => outputTokens],
  ['images', ({ images }) => images],
  ['audio_ms', ({ audioMs }) => audioMs],
  ['characters', ({ characters }) => characters],
  ['duration_ms', ({ durationMs }) => durationMs],
  ['cost_nano_usd', ({ costNanoUsd }) => costNanoUsd],
  ['cache_hits', ({ cacheHits }) => cacheHits],
  ['cache_misses', ({ cacheMisses }) => cacheMisses],
  ['generating_ms', ({ generatingMs }) => generatingMs],
];

const key = 'tenant_id, api_key_id, bucket_start, user_id, model, endpoint';
const sums = summed.map(([name]) => name).join(', ');
const sumParameters = summed.map((_, index) => `$${index + 7}::bigint[]`).join(', ');
const added = summed.map(([name]) => `${name} = kept.${name} + excluded.${name}`).join(', ');

/*
 * One statement for both tiers of roll-ups, who used which model, and the outbox to Billing. Each step goes through its keys in
 * one order, and the rows of the first come in it: two batches with the same rows wait for each other rather than deadlock.
 *
 * A roll-up row which was inserted, not updated, has no xmax: the first use of a model by a user in a quarter hour.
 */
const rollUpText = (days: string) => `
  with sums as (
    select tenant_id, api_key_id, to_timestamp(bucket_start) as bucket_start, user_id, model, endpoint, ${sums}
    from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::uuid[], $5::text[], $6::text[], ${sumParameters})
      as sums (${key}, ${sums})
  ),
  quarter_hours as (
    insert into rollups as kept (${key}, ${sums}) select ${key}, ${sums} from sums
    on conflict (${key}) do update set ${added}
    returning model, tenant_id, user_id, bucket_start, xmax = 0 as is_new
  ),
  days as (
    insert into daily_rollups as kept (${key}, ${sums}) ${days}
    on conflict (${key}) do update set ${added}
  ),
  users as (
    insert into model_users as kept (model, tenant_id, user_id, last_used_at)
    select model, tenant_id, user_id, max(bucket_start) from quarter_hours where is_new
    group by model, tenant_id, user_id order by model, tenant_id, user_id
    on conflict (model, tenant_id, user_id) do update
    set last_used_at = excluded.last_used_at where kept.last_used_at < excluded.last_used_at
  )
  insert into charge_batches (id, first_event_id, tenant_ids, event_ids)
  select $20::uuid, $21::uuid, $22::uuid[], $23::uuid[] where $20 is not null`;

const day = `date_trunc('day', bucket_start, 'UTC')`;

const rollUpDays = {
  name: 'roll-up-days',
  text: rollUpText(
    `select tenant_id, api_key_id, ${day} as day, user_id, model, endpoint,
      ${summed.map(([name]) => `sum(${name})`).join(', ')}
    from sums group by tenant_id, api_key_id, day, user_id, model, endpoint
    order by tenant_id, api_key_id, day, user_id, model collate "C", endpoint collate "C"`,
  ),
};

/** For a batch out of one quarter hour, as nearly all are: its rows are distinct by day as well, and in order. */
const rollUpQuarterHour = {
  name: 'roll-up-quarter-hour',
  text: rollUpText(`select tenant_id, api_key_id, ${day}, user_id, model, endpoint, ${sums} from sums`),
};

/** Held by every transaction that stores events: shared by those which take all of theirs for new. */
const storingLock = `hashtextextended('usage.store-events', 0)`;

/**
 * Stores events which are valid and whose months have partitions. Call it in a transaction.
 *
 * @throws unique_violation when one is there already; call `withoutStored` first, in another transaction.
 */
export async function storeEvents(
  client: Pick<pg.ClientBase, 'query'>,
  events: readonly UsageEvent[],
  charges: ChargeBatch | null,
): Promise<void> {
  if (events.length === 0) return;
  await client.query({ name: 'store-shared', text: `select pg_advisory_xact_lock_shared(${storingLock})` });
  await copyEvents(client, events);
  const rows = rollUp(events);
  const due = charges?.events ?? [];
  const values = [
    uuids(rows.map(({ tenantId }) => tenantId)),
    uuids(rows.map(({ apiKeyId }) => apiKeyId)),
    numbers(rows.map(({ bucketStartMs }) => bucketStartMs / 1_000)),
    uuids(rows.map(({ userId }) => userId)),
    rows.map(({ model }) => model),
    rows.map(({ endpoint }) => endpoint),
    ...summed.map(([, read]) => numbers(rows.map(read))),
    charges?.id ?? null,
    due.reduce<string | null>((first, { id }) => (first === null || id < first ? id : first), null),
    uuids(due.map(({ tenantId }) => tenantId)),
    uuids(due.map(({ id }) => id)),
  ];
  const isOneQuarterHour = rows.every(({ bucketStartMs }) => bucketStartMs === rows[0]!.bucketStartMs);
  await client.query({ ...(isOneQuarterHour ? rollUpQuarterHour : rollUpDays), values });
}

/** Arrays of what needs no quotes: pg would put them around each item. */
const uuids = (items: readonly string[]): string => `{${items.join(',')}}`;
const numbers = (items: readonly (number | bigint)[]): string => `{${items.join(',')}}`;

/** Those of the events which are not there yet. Until the transaction ends nobody else stores any, so that it stays true. */
export async function withoutStored(
  client: Pick<pg.ClientBase, 'query'>,
  events: readonly UsageEvent[],
): Promise<UsageEvent[]> {
  await client.query({ name: 'store-alone', text: `select pg_advisory_xact_lock(${storingLock})` });
  const { rows } = await client.query<{ id: string }>({
    name: 'stored-events',
    text: `select id from unnest($1::uuid[], $2::uuid[]) as event (tenant_id, id)
      where exists (select from events where events.tenant_id = event.tenant_id and events.id = event.id)`,
    values: [uuids(events.map(({ tenantId }) => tenantId)), uuids(events.map(({ id }) => id))],
  });
  const stored = new Set(rows.map(({ id }) => id));
  return events.filter(({ id }) => !stored.has(id));
}
