import { Migration } from '@mikro-orm/migrations';

/**
 * Counts the bytes of an organization's results: adding them up for each submission would take longer the more of them there are. Those
 * that are there already, and those of a worker of the former version, count as nothing until they expire.
 */
export class CountKeptResults extends Migration {
  override up(): void {
    this.addSql(`
      alter table jobs add column result_bytes bigint not null default 0;
      create table kept_results (
        tenant_id uuid primary key,
        -- The sum of result_bytes over its jobs.
        bytes bigint not null
      );
      -- A trigger, as the former version removes jobs too. Rows in order, as in jobs-end: two that count at once must not wait for each other.
      create function forget_kept_results() returns trigger language plpgsql set search_path = jobs, pg_temp as $$
      begin
        insert into kept_results (tenant_id, bytes)
          select tenant_id, -sum(result_bytes)::bigint from removed group by tenant_id having sum(result_bytes) > 0
          order by tenant_id
          on conflict (tenant_id) do update set bytes = kept_results.bytes + excluded.bytes;
        return null;
      end $$;
      create trigger jobs_forget_kept_results after delete on jobs
        referencing old table as removed for each statement execute function forget_kept_results();
    `);
  }
}
