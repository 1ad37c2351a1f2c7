import { Migration } from '@mikro-orm/migrations';

/** How often the users of an organization asked for other addresses within the hour, however many requests there were before. */
export class IndexEmailChanges extends Migration {
  override up(): void {
    this.addSql('create index email_changes_by_time on email_changes (created_at);');
  }
}
