import { Migration } from '@mikro-orm/migrations';

/** When the ledger is to be verified next, which also depends on how long that took. Null: now. */
export class PauseVerification extends Migration {
  override up(): void {
    this.addSql('alter table ledger_verifications add column due_at timestamptz;');
  }
}
