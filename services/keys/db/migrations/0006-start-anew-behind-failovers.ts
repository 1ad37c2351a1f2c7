import { Migration } from '@mikro-orm/migrations';

/** The server state that reveals a failover, after which edges start anew (shared/db/failover.ts). */
export class StartAnewBehindFailovers extends Migration {
  override up(): void {
    this.addSql(`
      alter table feed
        -- The timeline of the server that was written last.
        add column timeline text,
        -- Whoever knows an earlier version starts anew.
        add column anew_from bigint not null default 0;
    `);
  }
}
