import { Migration } from '@mikro-orm/migrations';

/**
 * What an organization owes since more credit was taken from it than it had left, as after a lost dispute about a payment that it has spent.
 * Its wallet is below zero until later credit has paid that.
 */
export class LetCreditGoBelowZero extends Migration {
  override up(): void {
    this.addSql(`
      alter table accounts add column overdraft bigint not null default 0 check (overdraft >= 0),
        drop constraint accounts_check,
        add constraint accounts_balance check (receivable + wallet + promotional + commitment + revenue + expired_credit
          + payg_accrual + funding + granted_credit + overdraft = 0);`);
    // Not checked for the entries that exist, of which there may be many millions: they kept to a narrower rule.
    this.addSql(`
      alter table entries drop constraint entries_account_check,
        add constraint entries_account_check check (account between 1 and 10) not valid;`);
    this.addSql('alter table transactions drop constraint transactions_balance_after_nano_usd_check;');
  }
}
