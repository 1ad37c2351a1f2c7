import type pg from 'pg';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';

/** The columns of events, their types, and where each comes from. */
const columns: readonly (readonly [name: string, type: string, read: (event: UsageEvent) => unknown])[] = [
  ['tenant_id', 'uuid', (event) => event.tenantId],
  ['id', 'uuid', (event) => event.id],
  ['user_id', 'uuid', (event) => event.userId],
  ['api_key_id', 'uuid', (event) => event.apiKeyId || null],
  ['session_id', 'uuid', (event) => event.sessionId || null],
  ['model', 'text', (event) => event.model],
  ['deployment_id', 'uuid', (event) => event.deploymentId || null],
  ['endpoint', 'text', (event) => event.endpoint],
  ['operation', 'smallint', (event) => event.operation],
  ['success', 'boolean', (event) => event.success],
  ['status', 'integer', (event) => event.status],
  ['error_code', 'text', (event) => event.errorCode],
  ['input_tokens', 'bigint', (event) => event.usage!.inputTokens],
  ['cached_input_tokens', 'bigint', (event) => event.usage!.cachedInputTokens],
  ['output_tokens', 'bigint', (event) => event.usage!.outputTokens],
  ['images', 'bigint', (event) => event.usage!.images],
  ['audio_ms', 'bigint', (event) => event.usage!.audioMs],
  ['characters', 'bigint', (event) => event.usage!.characters],
  ['cost_nano_usd', 'bigint', (event) => event.usage!.costNanoUsd],
  ['latency_ms', 'bigint', (event) => event.latencyMs],
  ['ttft_ms', 'bigint', (event) => event.ttftMs ?? null],
  ['streamed', 'boolean', (event) => event.streamed],
  ['price_version_id', 'uuid', (event) => event.priceVersionId || null],
  ['request_id', 'text', (event) => event.requestId],
  ['job_id', 'uuid', (event) => event.jobId || null],
  // unnest would flatten an array of arrays.
  ['lease_ids', 'text', (event) => event.leaseIds.join(',')],
];

const names = columns.map(([name]) => name);
const parameters = columns.map(([, type], index) => `$${index + 1}::${type}[]`);
const selected = names.map((name) =>
  name === 'lease_ids' ? `string_to_array(nullif(lease_ids, ''), ',')::uuid[]` : name,
);

const summed = [
  'requests',
  'successful_requests',
  'input_tokens',
  'cached_input_tokens',
  'output_tokens',
  'images',
  'audio_ms',
  'characters',
  'duration_ms',
  'cost_nano_usd',
  'cache_hits',
  'cache_misses',
  'generating_ms',
];

/*
 * All in one statement, so that an event, its roll-up, its outbox row and its model's user stand or fall together, and only
 * rows which the first insert returned are counted. Every step goes through its keys in order: two batches with the same
 * rows wait for each other rather than deadlock.
 *
 * A roll-up row which was inserted, not updated, has no xmax: the first use of a model by a user in a quarter hour.
 */
const storeText = `
  with incoming as (
    select ${names.join(', ')} from unnest(${parameters.join(', ')}) as event (${names.join(', ')})
  ),
  stored as (
    insert into events (${names.join(', ')})
    select ${selected.map((name) => (name.startsWith('string') ? `coalesce(${name}, '{}')` : name)).join(', ')}
    from incoming order by tenant_id, id
    on conflict do nothing
    returning ${names.join(', ')}
  ),
  outbox as (
    insert into events_to_charge (tenant_id, event_id)
    select tenant_id, id from stored where cost_nano_usd > 0 or cardinality(lease_ids) > 0 order by id
    on conflict do nothing
  ),
  rolled as (
    insert into rollups as kept (tenant_id, bucket_start, user_id, api_key_id, model, endpoint, ${summed.join(', ')})
    select tenant_id,
      -- The first twelve hex digits of the id are its time in milliseconds.
      to_timestamp(('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint / 900000 * 900) as bucket_start,
      user_id, coalesce(api_key_id, '00000000-0000-0000-0000-000000000000') as key_id, model, endpoint,
      count(*), count(*) filter (where success),
      sum(input_tokens), sum(cached_input_tokens), sum(output_tokens), sum(images), sum(audio_ms), sum(characters),
      sum(latency_ms), sum(cost_nano_usd),
      count(*) filter (where cached_input_tokens > 0),
      count(*) filter (where cached_input_tokens = 0 and input_tokens > 0),
      coalesce(sum(latency_ms) filter (where output_tokens > 0), 0)
    from stored
    group by tenant_id, key_id, bucket_start, user_id, model, endpoint
    order by tenant_id, key_id, bucket_start, user_id, model collate "C", endpoint collate "C"
    on conflict (tenant_id, api_key_id, bucket_start, user_id, model, endpoint) do update
    set ${summed.map((name) => `${name} = kept.${name} + excluded.${name}`).join(', ')}
    returning model, tenant_id, user_id, bucket_start, xmax = 0 as is_new
  ),
  users as (
    insert into model_users as kept (model, tenant_id, user_id, last_used_at)
    select model, tenant_id, user_id, max(bucket_start) from rolled where is_new
    group by model, tenant_id, user_id order by model, tenant_id, user_id
    on conflict (model, tenant_id, user_id) do update
    set last_used_at = excluded.last_used_at where kept.last_used_at < excluded.last_used_at
  )
  select id from stored`;

/** Stores events which are valid and whose months have partitions; answers the ids of those that were not there before. */
export async function storeEvents(
  client: Pick<pg.ClientBase, 'query'>,
  events: readonly UsageEvent[],
): Promise<Set<string>> {
  const values = columns.map(([, , read]) => events.map(read));
  const { rows } = await client.query<{ id: string }>({ name: 'store-events', text: storeText, values });
  return new Set(rows.map(({ id }) => id));
}
