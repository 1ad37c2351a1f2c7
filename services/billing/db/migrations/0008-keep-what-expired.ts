import { Migration } from '@mikro-orm/migrations';

/**
 * What was left of a lot when it was written off, as it stands for commitments: calls that were made before may come to be charged after.
 * Lots which were written off earlier have theirs in the ledger.
 */
export class KeepWhatExpired extends Migration {
  override up(): void {
    this.addSql(`
      alter table lots add column expired_nano_usd bigint not null default 0
        check (expired_nano_usd >= 0 and expired_nano_usd <= granted_nano_usd - remaining_nano_usd);
    `);
    this.addSql(`
      update lots set expired_nano_usd = written_off.amount
      from (
        -- 2 and 3 are the wallet and promotional credit, 4 is an expiry.
        select entries.tenant_id, item_id, sum(entries.amount_nano_usd) as amount
        from entries join transactions on transactions.tenant_id = entries.tenant_id and transactions.id = transaction_id
        where account in (2, 3) and type = 4 group by 1, 2
      ) written_off
      where lots.tenant_id = written_off.tenant_id and lots.id = written_off.item_id;
    `);
    this.addSql('create index lots_written_off on lots (tenant_id) where expired_nano_usd > 0;');
  }
}
