import { Migration } from '@mikro-orm/migrations';

/** The server state that reveals a failover (shared/db/failover.ts): edges went on with changes of the catalog that it had lost. */
export class NoticeFailovers extends Migration {
  override up(): void {
    this.addSql(`
      -- The timeline of the server that was written last.
      alter table catalog_version add column timeline text;
    `);
  }
}
