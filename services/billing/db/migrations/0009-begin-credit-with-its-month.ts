import { Migration } from '@mikro-orm/migrations';

/**
 * Credit that a plan includes pays for the calls of its month alone, also where those of the month before are charged late. What was given
 * already is found by the name of its request: it ends with its month.
 */
export class BeginCreditWithItsMonth extends Migration {
  override up(): void {
    this.addSql('alter table lots add column starts_at timestamptz check (starts_at < expires_at);');
    this.addSql(`
      update lots set starts_at = given.month at time zone 'UTC'
      from (
        select found.tenant_id, found.id, month
        from (
          select tenant_id, id, date_trunc('month', expires_at at time zone 'UTC') - interval '1 month' as month from lots
          where remaining_nano_usd > 0 and expires_at is not null
        ) found
        join transactions on transactions.tenant_id = found.tenant_id
          and request_id = md5('plan credit ' || found.tenant_id || ' ' || to_char(month, 'YYYY-MM-DD'))::uuid
        join entries on entries.tenant_id = found.tenant_id and transaction_id = transactions.id and item_id = found.id
      ) given
      where lots.tenant_id = given.tenant_id and lots.id = given.id;
    `);
  }
}
