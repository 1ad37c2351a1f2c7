import { Migration } from '@mikro-orm/migrations';

/** When the whole ledger was last verified, and how many faults were found, so that one process does so for all, whenever they start. */
export class RememberVerification extends Migration {
  override up(): void {
    this.addSql(`
      create table ledger_verifications (
        singleton boolean primary key default true check (singleton),
        -- Null: not yet.
        verified_at timestamptz,
        faults integer not null default 0
      );
      insert into ledger_verifications default values;
    `);
  }
}
