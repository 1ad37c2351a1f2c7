import { Migration } from '@mikro-orm/migrations';

/** Percentiles read a key's latencies from the index alone: its events lie among everybody's, one to a page. */
export class CoverLatencies extends Migration {
  override up(): void {
    this.addSql(`
      drop index events_of_key;
      create index events_of_key on events (tenant_id, api_key_id, id) include (user_id, model, success, latency_ms);
    `);
  }
}
