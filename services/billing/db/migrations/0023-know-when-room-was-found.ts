import { Migration } from '@mikro-orm/migrations';

/**
 * When the room of a lease was found, by this clock: what paid then pays for its calls. Of leases that are there already, the time in their
 * ids, UUIDv7 of their holders' clocks, is the best known.
 */
export class KnowWhenRoomWasFound extends Migration {
  override up(): void {
    // The default is for processes of an older version.
    this.addSql('alter table leases add column granted_at timestamptz not null default now();');
    this.addSql(`
      update leases set granted_at =
        to_timestamp(('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint / 1000.0);
    `);
  }
}
