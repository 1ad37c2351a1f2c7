import { Migration } from '@mikro-orm/migrations';

/**
 * What is asked of mails and invitations, however many there are. Indexes alone, and small ones: a version from before works on beside
 * them, and waits while they are made, for as long as it takes to read both tables once.
 */
export class IndexMailsAndInvitations extends Migration {
  override up(): void {
    this.addSql(`
      create index mails_awaited on mails (next_attempt_at) where status = 1 and kind = 'password_reset';
      create index invitations_pending on invitations (tenant_id, expires_at) where accepted_at is null and withdrawn_at is null;
    `);
  }
}
