import type pg from 'pg';

const yearMs = 365 * 86_400_000;

/**
 * Fills Usage's tables with a year of events, spread evenly over the time until `endMs` and over organizations, except that the first has a
 * twentieth of all in addition. The connection is the owner's. Constraints and indexes are created last, as they were: this way an event
 * costs a tenth of what Record takes.
 */
export async function loadYear(
  owner: pg.Client,
  { endMs, eventCount, tenantCount }: { endMs: number; eventCount: number; tenantCount: number },
): Promise<void> {
  const startMs = endMs - yearMs;
  await owner.query(`set maintenance_work_mem = '512MB'; set work_mem = '256MB'; set synchronous_commit = off`);
  await owner.query(
    `select add_events_partition(month::date)
      from generate_series(date_trunc('month', $1::timestamptz, 'UTC'), $2::timestamptz, interval '1 month') as month`,
    [new Date(startMs).toISOString(), new Date(endMs).toISOString()],
  );
  const restore = await withoutIndexes(owner);
  await owner.query(
    `insert into events (tenant_id, id, user_id, api_key_id, model, endpoint, operation, success, status, error_code, input_tokens,
        cached_input_tokens, output_tokens, images, audio_ms, characters, cost_nano_usd, latency_ms, ttft_ms, streamed, request_id,
        lease_ids)
      select ('0197f2a4-0001-7000-8000-' || lpad(to_hex(tenant), 12, '0'))::uuid,
        (lpad(to_hex(at), 12, '0') || '7' || substr(tail, 1, 3) || '8' || substr(tail, 4, 15))::uuid,
        ('0197f2a4-0002-7000-8000-' || lpad(to_hex(tenant * 4 + who / 2), 12, '0'))::uuid,
        ('0197f2a4-0003-7000-8000-' || lpad(to_hex(tenant * 8 + who), 12, '0'))::uuid,
        (array['small-chat', 'large-chat', 'embedder', 'code'])[1 + (what & 3)],
        (array['/v1/chat/completions', '/v1/embeddings'])[1 + (what >> 2)],
        1, luck < 0.97, 200, '', 700, 100, out, 0, 0, 0, 12000 + out * 600, 200 + 3000 * luck ^ 3, 90, true,
        'req_0197f2a400007000800000000000', '{}'
      from (
        select $1::bigint + number * $2::bigint / $3::bigint as at, md5(number::text) as tail, random() as luck,
          case when random() < 0.05 then 0 else floor(random() * $4::int)::int end as tenant,
          floor(random() * 8)::int as who, floor(random() * 8)::int as what, floor(random() * 800)::int as out
        from generate_series(0, $3::bigint - 1) as number
      ) as event`,
    [startMs, yearMs, eventCount, tenantCount],
  );
  const rollUp = (bucket: string, target: string, source: string) => owner.query(rollUpText(bucket, target, source));
  await rollUp(quarterHour, 'rollups', 'events');
  await rollUp(`date_trunc('day', bucket_start, 'UTC')`, 'daily_rollups', 'rollups');
  // Past days are summed, today is not.
  await owner.query(`delete from daily_rollups where bucket_start >= date_trunc('day', now(), 'UTC')`);
  await rollUp(`date_trunc('week', bucket_start, 'UTC')`, 'weekly_rollups', 'daily_rollups');
  await restore();
  await owner.query('vacuum analyze');
  await owner.query('checkpoint');
}

/** The quarter hour of an event, from the time inside its id. */
const quarterHour = `to_timestamp(('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint / 900000 * 900)`;

function rollUpText(bucket: string, target: string, source: string): string {
  const key = 'tenant_id, api_key_id, bucket, user_id, model, endpoint';
  const sums =
    source === 'events'
      ? `count(*), count(*) filter (where success), sum(input_tokens), sum(cached_input_tokens), sum(output_tokens), sum(images),
        sum(audio_ms), sum(characters), sum(latency_ms), sum(cost_nano_usd), count(*), 0, sum(latency_ms)`
      : `sum(requests), sum(successful_requests), sum(input_tokens), sum(cached_input_tokens), sum(output_tokens), sum(images),
        sum(audio_ms), sum(characters), sum(duration_ms), sum(cost_nano_usd), sum(cache_hits), sum(cache_misses), sum(generating_ms)`;
  // Rows sorted by organization and day, as Usage's worker leaves past days (gather-days.ts).
  return `insert into ${target} (tenant_id, api_key_id, bucket_start, user_id, model, endpoint, requests, successful_requests,
      input_tokens, cached_input_tokens, output_tokens, images, audio_ms, characters, duration_ms, cost_nano_usd, cache_hits,
      cache_misses, generating_ms${source === 'events' ? ', in_day' : ''})
    select tenant_id, api_key_id, bucket, user_id, model, endpoint, ${sums}
      ${source === 'events' ? `, bucket < date_trunc('day', now(), 'UTC')` : ''}
    from (select *, ${bucket} as bucket from ${source}) as source group by ${key}
    order by date_trunc('day', bucket, 'UTC'), tenant_id, bucket`;
}

/** Drops what slows the load down; returns a function to create it again. */
async function withoutIndexes(owner: pg.Client): Promise<() => Promise<void>> {
  const { rows } = await owner.query<{ table: string; index: string; name: string | null; text: string; made: string }>(
    `select indrelid::regclass::text as table, indexrelid::regclass::text as index, conname as name,
        pg_get_constraintdef(pg_constraint.oid) as text, pg_get_indexdef(indexrelid) as made
      from pg_index left join pg_constraint on conindid = indexrelid and contype = 'p'
      where indrelid in ('events'::regclass, 'rollups'::regclass, 'daily_rollups'::regclass,
        'weekly_rollups'::regclass)`,
  );
  for (const { table, index, name } of rows) {
    await owner.query(name === null ? `drop index ${index}` : `alter table ${table} drop constraint ${name}`);
  }
  return async () => {
    for (const { table, name, text, made } of rows) {
      // "on only" the parent would leave the partitions without it.
      await owner.query(
        name === null ? made.replace(' ON ONLY ', ' ON ') : `alter table ${table} add constraint ${name} ${text}`,
      );
    }
  };
}
