import { Migration } from '@mikro-orm/migrations';

/**
 * Lets autovacuum see to the latest events soon. Percentiles read a key's latencies from an index alone only where vacuum has been; by default
 * it comes once a month's events are a fifth more, so that of days with millions of calls each was looked up in its own page.
 */
export class VacuumEventsEarly extends Migration {
  override up(): void {
    this.addSql(`
      create or replace function add_events_partition(month date) returns boolean
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
          execute format('create table %I (like events including defaults including constraints) with (${vacuumedEarly})', partition);
          execute format('revoke update, delete, truncate on %I from modelgateway_app', partition);
          execute format('alter table events attach partition %I for values from (%L) to (%L)', partition,
            first_event_id(month), first_event_id((month + interval '1 month')::date));
        end if;
        return true;
      end $$;

      do $$
      declare
        partition regclass;
      begin
        for partition in select inhrelid from pg_inherits where inhparent = 'events'::regclass loop
          execute format('alter table %s set (${vacuumedEarly})', partition);
        end loop;
      end $$;
    `);
  }
}

/** Each time costs as much as what came since. */
const vacuumedEarly = 'autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000';
