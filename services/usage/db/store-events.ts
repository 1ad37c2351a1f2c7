import { setImmediate as nextTurn } from 'node:timers/promises';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import { type RollUp, rollUp, rollUpName } from '../domain/roll-up.ts';
import { arrayOf } from './binary.ts';
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

/** Identifies a row in roll-ups of any tier: their primary key. */
export const rollUpKey = 'bucket_start, tenant_id, api_key_id, user_id, model, endpoint';
export const rollUpSums: readonly string[] = summed.map(([name]) => name);
const sums = rollUpSums.join(', ');
const sumsAdded: string = rollUpSums.map((name) => `${name} = kept.${name} + excluded.${name}`).join(', ');
const sumParameters = summed.map((_, index) => `$${index + 7}::bigint[]`).join(', ');
const given = `unnest($1::timestamptz[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], ${sumParameters})
  as given (${rollUpKey}, ${sums})`;

/*
 * One statement for the roll-ups of quarter hours, for who used which model, and for the outbox to Billing. Each step goes through its keys
 * in the same order as the rows: two batches with the same ones wait for each other instead of deadlocking.
 *
 * A roll-up row that was inserted, not updated, has no xmax: the first use of a model by a user in a quarter hour. Returns the rows whose
 * days are summed already.
 */
const rollUpQuarterHours = {
  name: 'roll-up-quarter-hours',
  text: `
  with quarter_hours as (
    insert into rollups as kept (${rollUpKey}, ${sums}) select * from ${given}
    on conflict (${rollUpKey}) do update set ${sumsAdded}
    returning ${rollUpKey}, in_day, xmax = 0 as is_new
  ),
  users as (
    insert into model_users as kept (model, tenant_id, user_id, last_used_at)
    select model, tenant_id, user_id, max(bucket_start) from quarter_hours where is_new
    group by model, tenant_id, user_id order by model, tenant_id, user_id
    on conflict (model, tenant_id, user_id) do update
    set last_used_at = excluded.last_used_at where kept.last_used_at < excluded.last_used_at
  ),
  charges as (
    insert into charge_batches (id, first_event_id, tenant_ids, event_ids)
    select $20::uuid, $21::uuid, $22::uuid[], $23::uuid[] where $20 is not null
  )
  select ${rollUpKey} from quarter_hours where in_day`,
};

/** Adds the rows of `from` to those of a coarser tier, also in one order. */
const addTo = (table: string, unit: 'day' | 'week', from: string): string => `
  insert into ${table} as kept (${rollUpKey}, ${sums})
  select date_trunc('${unit}', bucket_start, 'UTC') as start, tenant_id, api_key_id, user_id, model, endpoint,
    ${rollUpSums.map((name) => `sum(${name})`).join(', ')}
  from ${from} group by start, tenant_id, api_key_id, user_id, model, endpoint
  order by start, tenant_id, api_key_id, user_id, model collate "C", endpoint collate "C"
  on conflict (${rollUpKey}) do update set ${sumsAdded}`;

/** The end of a statement that adds the rows of `from` to their days and weeks. Both always count the same. */
export const addToDaysAndWeeks = (from: string): string =>
  `days as (${addTo('daily_rollups', 'day', from)}) ${addTo('weekly_rollups', 'week', from)}`;

/** For events that arrive when their day has been summed. */
const rollUpDays = {
  name: 'roll-up-days',
  text: `with late as (select * from ${given}), ${addToDaysAndWeeks('late')}`,
};

/** Held by every transaction that stores events; shared by those that assume all of theirs are new. */
const storingLock = `hashtextextended('usage.store-events', 0)`;

/**
 * Stores valid events whose months have partitions. Call it in a transaction.
 *
 * @throws unique_violation when one exists already; then call `storedLeases` first, in another transaction.
 */
export async function storeEvents(
  client: Sql,
  events: readonly UsageEvent[],
  charges: ChargeBatch | null,
): Promise<void> {
  if (events.length === 0) return;
  await client.query({ name: 'store-shared', text: `select pg_advisory_xact_lock_shared(${storingLock})` });
  await copyEvents(client, events);
  const rows = rollUp(events);
  await nextTurn();
  const due = charges?.events ?? [];
  const { rows: summedDays } = await client.query<RollUpKeyRow>({
    ...rollUpQuarterHours,
    values: [
      ...parametersOf(rows),
      charges?.id ?? null,
      due.reduce<string | null>((first, { id }) => (first === null || id < first ? id : first), null),
      arrayOf('uuid', due, ({ tenantId }) => tenantId),
      arrayOf('uuid', due, ({ id }) => id),
    ],
  });
  if (summedDays.length === 0) return;
  const late = new Set(summedDays.map(nameOfRow));
  await client.query({ ...rollUpDays, values: parametersOf(rows.filter((row) => late.has(rollUpName(row)))) });
}

type RollUpKeyRow = {
  bucket_start: Date;
  tenant_id: string;
  api_key_id: string;
  user_id: string;
  model: string;
  endpoint: string;
};

const nameOfRow = (row: RollUpKeyRow): string =>
  rollUpName({
    bucketStartMs: row.bucket_start.getTime(),
    tenantId: row.tenant_id,
    apiKeyId: row.api_key_id,
    userId: row.user_id,
    model: row.model,
    endpoint: row.endpoint,
  });

const parametersOf = (rows: readonly RollUp[]): Buffer[] => [
  arrayOf('timestamptz', rows, ({ bucketStartMs }) => bucketStartMs),
  arrayOf('uuid', rows, ({ tenantId }) => tenantId),
  arrayOf('uuid', rows, ({ apiKeyId }) => apiKeyId),
  arrayOf('uuid', rows, ({ userId }) => userId),
  arrayOf('text', rows, ({ model }) => model),
  arrayOf('text', rows, ({ endpoint }) => endpoint),
  ...summed.map(([, read]) => arrayOf('bigint', rows, read)),
];

/** Of the events that are stored already: the leases that they have there, by id. Until the transaction ends nobody else stores any. */
export async function storedLeases(
  client: Sql,
  events: readonly UsageEvent[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  await client.query({ name: 'store-alone', text: `select pg_advisory_xact_lock(${storingLock})` });
  const { rows } = await client.query<{ id: string; lease_ids: string[] }>({
    name: 'stored-leases',
    text: `select id, lease_ids from unnest($1::uuid[], $2::uuid[]) as event (tenant_id, event_id)
      cross join lateral (
        select id, lease_ids from events where events.tenant_id = event.tenant_id and events.id = event_id offset 0) as stored`,
    values: [arrayOf('uuid', events, ({ tenantId }) => tenantId), arrayOf('uuid', events, ({ id }) => id)],
  });
  return new Map(rows.map(({ id, lease_ids }) => [id, lease_ids]));
}
