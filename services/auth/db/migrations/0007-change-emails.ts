import { Migration } from '@mikro-orm/migrations';

/** Requests for another address of a login. People wait for their mails as for those that reset a password. */
export class ChangeEmails extends Migration {
  override up(): void {
    this.addSql(`
      create table email_changes (
        token_hash bytea primary key,
        user_id uuid not null references users (id) deferrable initially deferred,
        email text not null check (email = lower(email)),
        created_at timestamptz not null,
        expires_at timestamptz not null,
        -- When the address was changed, or the request became void.
        used_at timestamptz
      );
      create index email_changes_of_user on email_changes (user_id, created_at);
      drop index mails_awaited;
      create index mails_awaited on mails (next_attempt_at) where status = 1 and kind in ('password_reset', 'email_change');
    `);
  }
}
