import { Migration } from '@mikro-orm/migrations';

/** What tells a failover (shared/db/failover.ts): edges went by a catalog of which it had lost changes. */
export class NoticeFailovers extends Migration {
  override up(): void {
    this.addSql(`
      -- The timeline of the server that was written last.
      alter table catalog_version add column timeline text;
    `);
  }
}
