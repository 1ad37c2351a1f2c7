import { Migration } from '@mikro-orm/migrations';

/**
 * Transactions of an organization stand in the order in which they were posted: each id is later than the last one, whatever the clocks of
 * those who post. Up to `unordered_until` they may not: they were posted before.
 */
export class OrderTransactions extends Migration {
  override up(): void {
    this.addSql('alter table accounts add column last_transaction_id uuid, add column unordered_until uuid;');
    this.addSql(`
      update accounts set last_transaction_id = last.id, unordered_until = last.id
      from (select tenant_id, id from accounts as owners cross join lateral (
        select id from transactions where transactions.tenant_id = owners.tenant_id order by id desc limit 1) as latest) as last
      where accounts.tenant_id = last.tenant_id;
    `);
  }
}
