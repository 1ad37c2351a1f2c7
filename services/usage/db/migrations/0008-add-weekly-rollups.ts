import { Migration } from '@mikro-orm/migrations';

/** A third tier of roll-ups, as a year of days is tens of thousands of rows where all keys use all models every day. */
export class AddWeeklyRollups extends Migration {
  override up(): void {
    this.addSql(`
      -- The daily roll-ups summed over weeks from Monday on in UTC, written with them.
      create table weekly_rollups (like daily_rollups);
      insert into weekly_rollups
        select tenant_id, date_trunc('week', bucket_start, 'UTC') as week, user_id, api_key_id, model, endpoint,
          sum(requests), sum(successful_requests), sum(input_tokens), sum(cached_input_tokens), sum(output_tokens), sum(images),
          sum(audio_ms), sum(characters), sum(duration_ms), sum(cost_nano_usd), sum(cache_hits), sum(cache_misses),
          sum(generating_ms)
        from daily_rollups group by tenant_id, week, user_id, api_key_id, model, endpoint order by tenant_id, week;
      -- A week's rows change with each of its days: from now on they have room on their page for a second version.
      alter table weekly_rollups set (fillfactor = 50);
      alter table weekly_rollups add primary key (tenant_id, api_key_id, bucket_start, user_id, model, endpoint);
      create index weekly_rollups_by_time on weekly_rollups (tenant_id, bucket_start, user_id);
    `);
  }
}
