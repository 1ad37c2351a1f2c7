import { Migration } from '@mikro-orm/migrations';

/**
 * The leases of edges as shared/leased-feed keeps them, and journaled: a crash of Postgres emptied the table, and changes were answered
 * while edges still decided without them.
 */
export class KeepLeases extends Migration {
  override up(): void {
    this.addSql(`
      alter table edge_leases rename to watchers;
      alter table watchers set logged;
      alter table watchers rename column expires_at to lease_until;
      -- Who may extend a lease while the database is away, and until when at most: in Auth nobody may.
      alter table watchers
        add column keeper_id uuid,
        add column outage_until timestamptz not null default '-infinity';
    `);
  }
}
