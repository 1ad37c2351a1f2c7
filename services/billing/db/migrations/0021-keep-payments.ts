import { Migration } from '@mikro-orm/migrations';

/**
 * A payment gets a row of its own, with the credit that it bought; its events need not be kept for it any more. What a payment had in excess
 * of its invoice was booked in the same turn of the account, so by its next transaction, with the same description.
 */
export class KeepPayments extends Migration {
  override up(): void {
    this.addSql(`
      create table payments (
        provider text not null,
        -- The provider's id of the payment.
        payment_id text not null,
        tenant_id uuid not null,
        amount_nano_usd bigint not null check (amount_nano_usd > 0),
        -- By which it was booked: as credit, or as the payment of an invoice.
        transaction_id uuid not null,
        -- The credit that it bought, be it only what exceeded its invoice; null: none.
        lot_id uuid,
        booked_at timestamptz not null,
        primary key (provider, payment_id)
      );`);
    this.addSql(`
      insert into payments
      select provider, payment_id, paid.tenant_id, paid.amount_nano_usd + coalesce(excess.amount_nano_usd, 0), paid.id,
        (select item_id from entries
          where entries.tenant_id = paid.tenant_id and transaction_id in (paid.id, excess.id) and item_id is not null limit 1),
        paid.posted_at
      from payment_events
      join transactions as paid on paid.tenant_id = payment_events.tenant_id and paid.id = transaction_id
      left join lateral (
        select id, amount_nano_usd from (
          select id, amount_nano_usd, description from transactions
          where tenant_id = paid.tenant_id and id > paid.id order by id limit 1) as next
        where paid.invoice_month is not null and description = paid.description) as excess on true
      where payment_id is not null;`);
    this.addSql(
      'alter table payment_events drop column payment_id, drop column tenant_id, drop column transaction_id;',
    );
    this.addSql('create index payment_events_received on payment_events (received_at);');
  }
}
