import { Migration } from '@mikro-orm/migrations';
import { nextVersion } from '#shared/db/next-version.ts';

/**
 * From here on versions are times. Gateways from before read them as integers of four bytes, and could tell no edge of a key: that this
 * is a migration keeps them from a database that has such versions.
 */
export class CountByTime extends Migration {
  override up(): void {
    this.addSql(`update feed set version = ${nextVersion}`);
  }
}
