import { Migration } from '@mikro-orm/migrations';

/** A second tier of roll-ups, so that a year is some hundred rows a key rather than tens of thousands; and a cheaper outbox. */
export class AddDailyRollups extends Migration {
  override up(): void {
    this.addSql(dailyRollups);
    this.addSql(chargeBatches);
  }
}

const dailyRollups = `
  -- The roll-ups summed over UTC days, written with them.
  create table daily_rollups (like rollups, primary key (tenant_id, api_key_id, bucket_start, user_id, model, endpoint))
    with (fillfactor = 75);
  create index daily_rollups_by_time on daily_rollups (tenant_id, bucket_start, user_id);
  insert into daily_rollups
    select tenant_id, date_trunc('day', bucket_start, 'UTC') as day, user_id, api_key_id, model, endpoint,
      sum(requests), sum(successful_requests), sum(input_tokens), sum(cached_input_tokens), sum(output_tokens), sum(images),
      sum(audio_ms), sum(characters), sum(duration_ms), sum(cost_nano_usd), sum(cache_hits), sum(cache_misses),
      sum(generating_ms)
    from rollups group by tenant_id, api_key_id, day, user_id, model, endpoint;
`;

const chargeBatches = `
  -- Events which Billing has yet to charge: one row for those of one transaction, deleted once Billing has answered. A row for
  -- each event cost more than the event's roll-ups.
  create table charge_batches (
    id uuid primary key,
    stored_at timestamptz not null default now(),
    -- The smallest of event_ids: its month's partition must stay.
    first_event_id uuid not null,
    tenant_ids uuid[] not null,
    event_ids uuid[] not null
  );
  -- Ids do not compress.
  alter table charge_batches alter tenant_ids set storage external, alter event_ids set storage external;
  insert into charge_batches (id, first_event_id, tenant_ids, event_ids)
    select gen_random_uuid(), (array_agg(event_id order by event_id))[1], array_agg(tenant_id order by event_id), array_agg(event_id order by event_id)
    from (select *, (row_number() over (order by event_id) - 1) / 1000 as batch from events_to_charge) as due
    group by batch;

  create or replace function drop_expired_events_partition() returns text
  language plpgsql security definer set search_path = "usage", pg_temp set lock_timeout = '1s' as $$
  declare
    partition text;
    bound uuid;
  begin
    perform pg_advisory_xact_lock(hashtext('usage.events partitions'));
    select c.relname, first_event_id((to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month')::date)
      into partition, bound
      from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'events'::regclass
        and to_date(right(c.relname, 7), 'YYYY_MM') < (select kept_from from events_retention)
      order by c.relname limit 1;
    if partition is null or exists (select from charge_batches where first_event_id < bound) then
      return null;
    end if;
    execute format('drop table %I', partition);
    return partition;
  end $$;
  drop table events_to_charge;
`;
