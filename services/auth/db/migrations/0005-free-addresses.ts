import { Migration } from '@mikro-orm/migrations';

/** An address belongs to one active user: whoever was removed from one organization may join another. */
export class FreeAddresses extends Migration {
  override up(): void {
    this.addSql(`
      alter table users drop constraint users_email_unique;
      create unique index users_email_unique on users (email) where is_active;
    `);
  }
}
