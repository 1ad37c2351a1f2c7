import { Migration } from '@mikro-orm/migrations';

/**
 * From here on versions are times. Gateways from before read them as integers of four bytes, and could tell no edge of a key: that this
 * is a migration keeps them from a database that has such versions.
 */
export class CountByTime extends Migration {
  override up(): void {
    this.addSql(
      'update feed set version = greatest(version + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)',
    );
  }
}
