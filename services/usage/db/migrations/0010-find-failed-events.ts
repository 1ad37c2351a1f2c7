import { Migration } from '@mikro-orm/migrations';

/** Failed calls are listed alone. Where they are few, all others of the organization were read to find them. */
export class FindFailedEvents extends Migration {
  override up(): void {
    this.addSql('create index events_failed on events (tenant_id, id) where not success;');
  }
}
