import { Migration } from '@mikro-orm/migrations';

/** What went back to payers, as their provider tells it: refunds and disputes. */
export class TakePaymentsBack extends Migration {
  override up(): void {
    this.addSql(`
      create table payment_returns (
        provider text not null,
        -- The provider's id of the refund or dispute.
        return_id text not null,
        -- The payment, which the provider may report later, or which may be none of ours.
        payment_id text not null,
        amount_nano_usd bigint not null check (amount_nano_usd > 0),
        description text not null,
        -- The money came in again: the refund failed, or the dispute was won.
        is_undone boolean not null,
        -- The transactions by which credit was taken for it, and given again.
        taken_by uuid,
        given_by uuid,
        received_at timestamptz not null,
        primary key (provider, return_id)
      );
      create index payment_returns_payment on payment_returns (provider, payment_id);`);
    // More may go back than came in: a payment may be refunded and disputed.
    this.addSql('alter table accounts drop constraint accounts_funding_check;');
  }
}
