import { Migration } from '@mikro-orm/migrations';

/**
 * Looks for events that Billing has yet to charge once nobody stores any. The removal of a month used to wait for who was storing events of
 * it, but had looked before, and took those away uncharged.
 */
export class LockBeforeDropping extends Migration {
  override up(): void {
    this.addSql(`
      create or replace function drop_expired_events_partition() returns text
      language plpgsql security definer set search_path = "usage", pg_temp set lock_timeout = '1s' as $$
      declare
        partition text;
        bound uuid;
      begin
        perform pg_advisory_xact_lock(hashtext('usage.events partitions'));
        select c.relname into partition
          from pg_inherits i join pg_class c on c.oid = i.inhrelid
          where i.inhparent = 'events'::regclass
            and c.relname < (select 'events_' || to_char(kept_from, 'YYYY_MM') from events_retention)
          order by c.relname limit 1;
        bound := first_event_id((to_date(right(partition, 7), 'YYYY_MM') + interval '1 month')::date);
        -- Looked at first without the lock, for which reports would wait.
        if partition is null or exists (select from charge_batches where first_event_id < bound) then
          return null;
        end if;
        lock table only events in access exclusive mode;
        if exists (select from charge_batches where first_event_id < bound) then
          return null;
        end if;
        execute format('drop table %I', partition);
        return partition;
      end $$;
    `);
  }
}
