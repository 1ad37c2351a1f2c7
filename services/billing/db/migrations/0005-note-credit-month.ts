import { Migration } from '@mikro-orm/migrations';

/** Whether the plan's credit of a month was asked for, seen with the lock of the account: whoever draws on it asks first. */
export class NoteCreditMonth extends Migration {
  override up(): void {
    this.addSql('alter table accounts add column credit_month date;');
  }
}
