import { Migration } from '@mikro-orm/migrations';

/**
 * What was left of a lot when it was written off, as it stands for commitments: calls that were made before may come to be charged after.
 * Lots which ended in the last week have theirs in the ledger; no charge is likely to come later.
 */
export class KeepWhatExpired extends Migration {
  override up(): void {
    this.addSql(`
      alter table lots add column expired_nano_usd bigint not null default 0
        check (expired_nano_usd >= 0 and expired_nano_usd <= granted_nano_usd - remaining_nano_usd);
    `);
    // By the transactions' ids, which are UUIDv7, since nothing else finds the few among all charges; 4 is an expiry.
    this.addSql(`
      update lots set expired_nano_usd = written_off.amount
      from (
        select lots.tenant_id, lots.id, sum(entries.amount_nano_usd) as amount
        from lots
        join transactions on transactions.tenant_id = lots.tenant_id and type = 4 and transactions.id >= (
          lpad(to_hex((extract(epoch from expires_at - interval '1 minute') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
        join entries on entries.tenant_id = lots.tenant_id and transaction_id = transactions.id and item_id = lots.id
        where expires_at > now() - interval '7 days' and remaining_nano_usd = 0
        group by 1, 2
      ) written_off
      where lots.tenant_id = written_off.tenant_id and lots.id = written_off.id;
    `);
    this.addSql('create index lots_written_off on lots (tenant_id) where expired_nano_usd > 0;');
  }
}
