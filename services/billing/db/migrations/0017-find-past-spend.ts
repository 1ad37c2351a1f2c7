import { Migration } from '@mikro-orm/migrations';

/** The days of keys and users that are to be forgotten; 3 is an organization, whose months are kept. */
export class FindPastSpend extends Migration {
  override up(): void {
    this.addSql('create index spend_of_days on spend (period_start) where kind <> 3;');
  }
}
