import { Migration } from '@mikro-orm/migrations';

/**
 * Quarter hours alone are written with their events; days are summed once they are over (workers/gather-days.ts). An event used to add to
 * a row of each tier, and each row's place was its key's: 16,000 pages of indexes which every batch touched and every checkpoint wrote.
 */
export class SumDaysLater extends Migration {
  override up(): void {
    this.addSql(`
      -- Whether the row is counted in its day's row of daily_rollups, as all are that stand here.
      alter table rollups add column in_day boolean not null default true;
      alter table rollups alter column in_day set default false;

      -- Time leads, so that the rows of the current quarter hour lie side by side.
      alter table rollups drop constraint rollups_pkey;
      alter table rollups add primary key (bucket_start, tenant_id, api_key_id, user_id, model, endpoint);
      -- For a whole organization's time, and for one key's and one user's: their rows are picked within the index.
      drop index rollups_by_time;
      create index rollups_by_time on rollups (tenant_id, bucket_start, api_key_id, user_id);
      -- Room for a second version of every row on its page: with busy organizations a batch may change all of a page's rows, and one that
      -- finds no room costs an entry in each index.
      alter table rollups set (fillfactor = 50);
      -- What a sum of days adds to that of daily_rollups.
      create index rollups_outside_days on rollups (tenant_id, bucket_start, api_key_id) where not in_day;

      -- The rows themselves tell which days are left to sum.
      drop table gathered_days;
    `);
  }
}
