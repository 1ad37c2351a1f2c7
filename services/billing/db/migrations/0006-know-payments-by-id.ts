import { Migration } from '@mikro-orm/migrations';

/** A provider tells one payment by several events: which payment an event was about, so that it is booked once. */
export class KnowPaymentsById extends Migration {
  override up(): void {
    this.addSql('alter table payment_events add column payment_id text;');
    this.addSql('create unique index payment_events_payment on payment_events (provider, payment_id);');
  }
}
