import { Migration } from '@mikro-orm/migrations';

/** Events, their partitions and retention, the roll-ups, who used which model, and the outbox to Billing. */
export class CreateUsage extends Migration {
  override up(): void {
    this.addSql(events);
    this.addSql(partitions);
    this.addSql(rollups);
    this.addSql(charges);
  }
}

const events = `
  -- modelgateway.usage.v1.UsageEvent. There is no column for occurred_at: it is the time inside the UUIDv7, which sorts as
  -- the id does. The id therefore also chooses the partition, so that a retry always meets the partition of the first try.
  create table events (
    tenant_id uuid not null,
    id uuid not null,
    user_id uuid not null,
    api_key_id uuid,
    session_id uuid,
    model text not null,
    deployment_id uuid,
    endpoint text not null,
    -- modelgateway.models.v1.Operation
    operation smallint not null,
    success boolean not null,
    status integer not null,
    error_code text not null,
    input_tokens bigint not null,
    cached_input_tokens bigint not null,
    output_tokens bigint not null,
    images bigint not null,
    audio_ms bigint not null,
    characters bigint not null,
    cost_nano_usd bigint not null,
    latency_ms bigint not null,
    ttft_ms bigint,
    streamed boolean not null,
    price_version_id uuid,
    request_id text not null,
    job_id uuid,
    lease_ids uuid[] not null,
    recorded_at timestamptz not null default now(),
    primary key (tenant_id, id)
  ) partition by range (id);
  create index events_of_user on events (tenant_id, user_id, id);
  create index events_of_key on events (tenant_id, api_key_id, id);
  -- Nothing of an event changes once it is written.
  revoke update, delete, truncate on events from modelgateway_app;
`;

/*
 * Services work as a role which owns nothing, so partitions are made and dropped by functions of the owner. An empty table is
 * attached rather than made as a partition: ATTACH lets inserts into other partitions go on.
 */
const partitions = `
  create table events_retention (
    singleton boolean primary key default true check (singleton),
    -- Events before this month are gone, and are refused: their ids are no longer known, so a repeat would count twice.
    kept_from date not null
  );
  insert into events_retention (kept_from) values ('2020-01-01');
  revoke insert, update, delete, truncate on events_retention from modelgateway_app;

  -- The smallest UUIDv7 of a UTC day.
  create function first_event_id(day date) returns uuid language sql immutable set search_path = pg_catalog as $$
    select (lpad(to_hex((extract(epoch from day) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
  $$;

  -- Makes sure that a month has its partition. False: the month is past retention.
  create function add_events_partition(month date) returns boolean
  language plpgsql security definer set search_path = "usage", pg_temp as $$
  declare
    partition text := 'events_' || to_char(month, 'YYYY_MM');
  begin
    if month <> date_trunc('month', month) then
      raise exception '% is not the first day of a month', month;
    end if;
    perform pg_advisory_xact_lock(hashtext('usage.events partitions'));
    if month < (select kept_from from events_retention) then
      return false;
    end if;
    if to_regclass(partition) is null then
      execute format('create table %I (like events including defaults including constraints)', partition);
      execute format('revoke update, delete, truncate on %I from modelgateway_app', partition);
      execute format('alter table events attach partition %I for values from (%L) to (%L)', partition,
        first_event_id(month), first_event_id((month + interval '1 month')::date));
    end if;
    return true;
  end $$;

  -- Refuses events before a month from now on; committed before their partitions are dropped.
  create function keep_events_from(month date) returns date
  language sql security definer set search_path = "usage", pg_temp as $$
    update events_retention set kept_from = greatest(kept_from, date_trunc('month', month)::date) returning kept_from
  $$;

  -- Drops the oldest partition before kept_from; null when none is left. One whose events Billing has yet to charge stays.
  create function drop_expired_events_partition() returns text
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
    if partition is null or exists (select from events_to_charge where event_id < bound) then
      return null;
    end if;
    execute format('drop table %I', partition);
    return partition;
  end $$;

  revoke execute on function add_events_partition(date), keep_events_from(date), drop_expired_events_partition() from public;
  grant execute on function add_events_partition(date), keep_events_from(date), drop_expired_events_partition()
    to modelgateway_app;
`;

const rollups = `
  -- Sums over quarter hours, the coarsest step of which every time zone's days are made.
  create table rollups (
    tenant_id uuid not null,
    bucket_start timestamptz not null,
    user_id uuid not null,
    -- All zeros: calls of sessions.
    api_key_id uuid not null,
    -- Compared byte by byte, which costs a fraction of a language's order.
    model text collate "C" not null,
    endpoint text collate "C" not null,
    requests bigint not null,
    successful_requests bigint not null,
    input_tokens bigint not null,
    cached_input_tokens bigint not null,
    output_tokens bigint not null,
    images bigint not null,
    audio_ms bigint not null,
    characters bigint not null,
    duration_ms bigint not null,
    cost_nano_usd bigint not null,
    -- Calls with at least one cached prompt token, and calls with prompt tokens of which none was cached.
    cache_hits bigint not null,
    cache_misses bigint not null,
    -- Time of the calls which gave output tokens: what tokens per second are reckoned by.
    generating_ms bigint not null,
    -- In the order in which one key is read.
    primary key (tenant_id, api_key_id, bucket_start, user_id, model, endpoint)
    -- Rows of the current quarter hour change with every batch and should find room on their page.
  ) with (fillfactor = 75);
  -- For a whole organization's time, and for one user's: the user's rows are picked within the index.
  create index rollups_by_time on rollups (tenant_id, bucket_start, user_id);

  -- Who is to hear of a model's retirement. Written when a roll-up row begins, so to the quarter hour.
  create table model_users (
    model text collate "C" not null,
    tenant_id uuid not null,
    user_id uuid not null,
    last_used_at timestamptz not null,
    primary key (model, tenant_id, user_id)
  );
`;

const charges = `
  -- Events which Billing has yet to charge: written with the event, deleted once Billing has answered.
  create table events_to_charge (
    event_id uuid primary key,
    tenant_id uuid not null
  );
`;
