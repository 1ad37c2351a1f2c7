import { Migration } from '@mikro-orm/migrations';

/**
 * Compares the names of partitions as text to find the expired ones. The condition used to parse a date from each name, and with many
 * partitions Postgres evaluates it for every table and index of the database: it failed at the first other name, and nothing was dropped.
 */
export class DropMonthsByName extends Migration {
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
        if partition is null or exists (select from charge_batches where first_event_id < bound) then
          return null;
        end if;
        execute format('drop table %I', partition);
        return partition;
      end $$;
    `);
  }
}
