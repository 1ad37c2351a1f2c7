import { Migration } from '@mikro-orm/migrations';

/** Lets a start notice that its pepper is not the one that the keys were made with: it would refuse them all. */
export class KnowPeppers extends Migration {
  override up(): void {
    this.addSql(`
      create table peppers (
        version integer primary key,
        -- HMAC-SHA-256 of a constant under the pepper, which stands outside the database.
        fingerprint bytea not null check (length(fingerprint) = 32)
      )`);
  }
}
