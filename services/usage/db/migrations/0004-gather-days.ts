import { Migration } from '@mikro-orm/migrations';

/** How far days that are over have been gathered (workers/gather-days.ts). */
export class GatherDays extends Migration {
  override up(): void {
    this.addSql(`
      create table gathered_days (
        singleton boolean primary key default true check (singleton),
        -- The first UTC day whose roll-ups still lie as they came.
        next_day date not null
      );
      insert into gathered_days (next_day)
        select (coalesce(min(bucket_start), now()) at time zone 'UTC')::date from daily_rollups;
    `);
  }
}
