import { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { ErrorReason, hasReason, notFound } from '#shared/errors.ts';
import { usdJson } from '#shared/money.ts';
import { asService } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { type Account, lockAccount } from '../ledger/accounts.ts';
import { type Booked, buyCredit } from '../ledger/credit.ts';
import { type LockedInvoice, lockInvoice, payInvoice } from '../ledger/invoice-postings.ts';
import { bookReturn, findPayment, lockAndFindPayment, paymentText, savePayment } from '../ledger/payments.ts';
import type { PaymentEvent } from '../payments/provider.ts';

type Deps = Pick<BillingDeps, 'auth' | 'database' | 'databaseNow' | 'paymentProviders' | 'metrics' | 'logger'>;

/** In milliseconds; shorter than payment providers wait for an answer, after which they try again. */
const authTimeoutMs = 3_000;

/**
 * The signature is the credential: the call itself has no caller. A payment for an unknown organization is not booked, and not answered
 * with an error: it may be meant for another gateway with the same provider account, and repeating it would not make the organization
 * known. The event is not remembered, so that it can be sent again once an operator has investigated. What can never be booked is
 * remembered, and left to operators by the log.
 */
export const receivePaymentEvent =
  ({ auth, database, databaseNow, paymentProviders, metrics, logger }: Deps): BillingRpc<'receivePaymentEvent'> =>
  async ({ provider: name, payload, signature }) => {
    const provider = paymentProviders.get(name);
    if (provider === undefined)
      throw notFound('payment provider', {
        internal: 'PAYMENT_WEBHOOK_SECRET is not set, so that no payment events are accepted',
      });
    const event = await provider.read(payload, signature, () => databaseNow(database.pool));
    if (event.payment !== null && !(await isKnown(auth, event.payment.tenantId))) {
      const { id: paymentId, tenantId, amountNanoUsd } = event.payment;
      const fields = { provider: name, eventId: event.id, paymentId, tenantId, amountUsd: usdJson(amountNanoUsd) };
      metrics.paymentUnbooked();
      logger.error(
        fields,
        'a payment names no organization of this gateway and was not booked: credit it by hand, or refund it',
      );
      return { duplicate: false, transactionId: '' };
    }
    const result = await sqlTransaction(database, async (sql) => {
      const nowMs = await databaseNow(sql);
      if (!(await isFirst(sql, name, event.id, nowMs))) return { duplicate: true, transactionId: '' };
      if (event.unbooked !== null) {
        // Before the event is remembered for good, or nobody would hear of the money if this process died in between.
        logger.error(
          { provider: name, eventId: event.id, ...event.unbooked },
          'a payment was not booked, for its currency, amount, account or organization: credit it by hand, or refund it',
        );
        metrics.paymentUnbooked();
      }
      if (event.unbookedReturn !== null) {
        const { paymentId } = event.unbookedReturn;
        // An operator has booked it in USD; of others there is nothing to take.
        if ((await findPayment(sql, { provider: name, paymentId })) !== null) {
          logger.error(
            { provider: name, eventId: event.id, ...event.unbookedReturn },
            'a refund or dispute was not booked, for its currency or amount: adjust the credit by hand',
          );
          metrics.paymentUnbooked();
        }
      }
      if (event.returned !== null) {
        return { duplicate: false, transactionId: (await bookReturn(sql, name, event.returned, nowMs)) ?? '' };
      }
      if (event.payment === null) return { duplicate: false, transactionId: '' };
      const payment = { provider: name, paymentId: event.payment.id };
      const earlier = await lockAndFindPayment(sql, payment);
      if (earlier !== null) {
        const { tenantId, amountNanoUsd } = event.payment;
        // What an operator has booked may be mistaken; the provider knows.
        if (earlier.tenantId !== tenantId || earlier.amountNanoUsd !== amountNanoUsd) {
          const told = { tenantId, amountUsd: usdJson(amountNanoUsd) };
          const booked = { bookedTenantId: earlier.tenantId, bookedAmountUsd: usdJson(earlier.amountNanoUsd) };
          logger.error(
            { provider: name, eventId: event.id, paymentId: payment.paymentId, ...told, ...booked },
            'a payment was booked with another amount, or for another organization, than its provider tells: adjust the credit by hand',
          );
          metrics.paymentUnbooked();
        }
        return { duplicate: true, transactionId: '' };
      }
      const account = await lockAccount(sql, event.payment.tenantId);
      const booked = await book(sql, account, event.payment, nowMs);
      await savePayment(sql, payment, { ...event.payment, ...booked }, nowMs);
      return { duplicate: false, transactionId: booked.transactionId };
    });
    logger.info({ provider: name, eventId: event.id, ...result }, 'payment event');
    return result;
  };

async function isKnown(auth: Deps['auth'], tenantId: string): Promise<boolean> {
  const options = { ...asService('billing'), timeoutMs: authTimeoutMs };
  return (await auth.getTenants({ tenantIds: [tenantId] }, options)).organizations.length > 0;
}

/** A concurrent call with the same event waits here until the first is done. */
async function isFirst(sql: Sql, provider: string, eventId: string, nowMs: number): Promise<boolean> {
  const { rowCount } = await sql.query({
    text: 'insert into payment_events (provider, event_id, received_at) values ($1, $2, $3) on conflict do nothing',
    values: [provider, eventId, new Date(nowMs)],
  });
  return rowCount === 1;
}

/** Pays the invoice when the amount covers its total. Money that covers none becomes credit, so that none is lost. */
async function book(
  sql: Sql,
  account: Account,
  payment: NonNullable<PaymentEvent['payment']>,
  nowMs: number,
): Promise<Booked> {
  const { id, amountNanoUsd, invoiceId } = payment;
  const description = paymentText(id);
  const invoice = invoiceId === null ? null : await findPayable(sql, account.tenantId, invoiceId);
  const paid =
    invoice === null || amountNanoUsd < invoice.totalNanoUsd
      ? null
      : await payInvoice(sql, account, invoice, { amountNanoUsd, paidAtMs: nowMs, description }, nowMs);
  return paid ?? (await buyCredit(sql, account, { amountNanoUsd, description }, nowMs));
}

async function findPayable(sql: Sql, tenantId: string, invoiceId: string): Promise<LockedInvoice | null> {
  try {
    const invoice = await lockInvoice(sql, tenantId, invoiceId);
    return invoice.status === InvoiceStatus.FINALIZED ? invoice : null;
  } catch (error) {
    if (hasReason(error, ErrorReason.NOT_FOUND)) return null;
    throw error;
  }
}
