import { Migration } from '@mikro-orm/migrations';

/**
 * Gives events that were booked before 0006 the payment that they were about, from what they posted: "Payment " and the id of the event's
 * object. That is the payment's own where a payment intent told of it, so that its checkout session books nothing more. Where a session
 * was first, nothing that is stored names its intent, and an event of that would still be booked.
 */
export class KnowEarlierPayments extends Migration {
  override up(): void {
    this.addSql(`
      update payment_events set payment_id = told.object_id
      from (
        select distinct on (provider, object_id) provider, event_id, substr(description, length('Payment ') + 1) as object_id
        from payment_events events join transactions on transactions.tenant_id = events.tenant_id and transactions.id = transaction_id
        where events.payment_id is null and description like 'Payment _%'
        order by provider, object_id, received_at
      ) told
      where payment_events.provider = told.provider and payment_events.event_id = told.event_id
        and not exists (
          select from payment_events known where known.provider = told.provider and known.payment_id = told.object_id
        );
    `);
  }
}
