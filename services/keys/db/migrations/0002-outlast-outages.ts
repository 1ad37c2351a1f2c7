import { Migration } from '@mikro-orm/migrations';

/** What lets edges go on for a minute while Postgres is away, without a deletion being answered too early (feed/lease-keeper.ts). */
export class OutlastOutages extends Migration {
  override up(): void {
    this.addSql(`
      -- Processes of Keys, each of which may extend its edges' leases while the database is out of its reach.
      create table keepers (
        keeper_id uuid primary key,
        -- Where the process runs, so that a neighbour can tell that it has died.
        machine text not null,
        pid integer not null,
        -- At this moment the keeper had extended no lease beyond its lease_until; infinity once it never will again.
        seen_at timestamptz not null
      );
      alter table watchers
        add column keeper_id uuid,
        -- The longest to which the keeper may extend the lease by itself.
        add column outage_until timestamptz not null default '-infinity';
    `);
  }
}
