import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import type { Sql } from '#shared/db/sql.ts';
import { ErrorReason, type GatewayError, gatewayError, invalidValue } from '#shared/errors.ts';
import { type PaymentReturn, providerName } from '../payments/provider.ts';
import { isBesidePayment } from '../payments/stripe.ts';
import { type Account, lockAccount } from './accounts.ts';
import { type Booked, giveCredit } from './credit.ts';
import { takeCredit } from './take-credit.ts';

/** A payment, as its provider names it. */
type PaymentName = { provider: string; paymentId: string };

/** Whoever books a payment, or what went back of it, does so one after another, until the end of the transaction: neither may miss the other. */
const lockPayment = (sql: Sql, { provider, paymentId }: PaymentName): Promise<void> =>
  takeAdvisoryLock(sql, `payment ${provider} ${paymentId}`);

/** How a payment was booked; null when it was not, and nobody else books it before the end of the transaction. */
export async function lockAndFindPayment(sql: Sql, name: PaymentName): Promise<BookedPayment | null> {
  await lockPayment(sql, name);
  return findPayment(sql, name);
}

/** The payment of an operator's request, by the id that they gave; null: none. INVALID_REQUEST for what no provider calls a payment. */
export function namedPayment(paymentId: string): PaymentName | null {
  if (paymentId === '') return null;
  if (!/^[!-~]+$/.test(paymentId)) {
    throw invalidValue('payment_id', "it is the payment provider's id of the payment, without spaces");
  }
  if (isBesidePayment(paymentId)) {
    throw invalidValue('payment_id', "it is the id of something else. The payment's own begins with `pi_`");
  }
  return { provider: providerName, paymentId };
}

/** What lists show of a payment. */
export const paymentText = (id: string): string => `Payment ${id.slice(0, 200)}`;

type BookedPayment = Booked & {
  tenantId: string;
  amountNanoUsd: bigint;
  /** The month of the invoice that it paid; null: it bought only credit. */
  invoiceMonth: string | null;
};

/** How a payment was booked; null when it was not. */
export async function findPayment(sql: Sql, { provider, paymentId }: PaymentName): Promise<BookedPayment | null> {
  const { rows } = await sql.query<{
    tenant_id: string;
    amount_nano_usd: bigint;
    transaction_id: string;
    lot_id: string | null;
    invoice_month: string | null;
  }>({
    text: `
      select payments.tenant_id, payments.amount_nano_usd, transaction_id, lot_id, invoice_month
      from payments join transactions on transactions.tenant_id = payments.tenant_id and id = transaction_id
      where provider = $1 and payment_id = $2`,
    values: [provider, paymentId],
  });
  const [row] = rows;
  if (row === undefined) return null;
  return {
    tenantId: row.tenant_id,
    amountNanoUsd: row.amount_nano_usd,
    transactionId: row.transaction_id,
    lotId: row.lot_id,
    invoiceMonth: row.invoice_month,
  };
}

export const paymentBooked = ({ paymentId }: PaymentName): GatewayError =>
  gatewayError(ErrorReason.CONFLICT, `The payment ${paymentId} is booked already.`);

/** Remembers for good how a payment was booked, and settles what went back of it before. */
export async function savePayment(
  sql: Sql,
  { provider, paymentId }: PaymentName,
  payment: Booked & { tenantId: string; amountNanoUsd: bigint },
  nowMs: number,
): Promise<void> {
  const { tenantId, amountNanoUsd, transactionId, lotId } = payment;
  await sql.query({
    text: `
      insert into payments (provider, payment_id, tenant_id, amount_nano_usd, transaction_id, lot_id, booked_at)
      values ($1, $2, $3, $4, $5, $6, $7)`,
    values: [provider, paymentId, tenantId, amountNanoUsd, transactionId, lotId, new Date(nowMs)],
  });
  await settleReturns(sql, { provider, paymentId }, nowMs);
}

/**
 * Books what went back to a payer, as far as its payment is booked. Returns the last transaction; null when nothing was to be done, as before
 * the payment is booked, or where all was undone before any was taken.
 */
export async function bookReturn(
  sql: Sql,
  provider: string,
  returned: PaymentReturn,
  nowMs: number,
): Promise<string | null> {
  const name = { provider, paymentId: returned.paymentId };
  await lockPayment(sql, name);
  await noteReturn(sql, provider, returned, nowMs);
  return settleReturns(sql, name, nowMs);
}

/** Remembers it. What was undone stays so, in whichever order its events come. */
async function noteReturn(sql: Sql, provider: string, returned: PaymentReturn, nowMs: number): Promise<void> {
  const { id, paymentId, amountNanoUsd, description, undoneNanoUsd } = returned;
  await sql.query({
    text: `
      insert into payment_returns (provider, return_id, payment_id, amount_nano_usd, description, undone_nano_usd, received_at)
      values ($1, $2, $3, $4, $5, $6, $7)
      on conflict (provider, return_id) do update
        set undone_nano_usd = least(greatest(payment_returns.undone_nano_usd, excluded.undone_nano_usd), payment_returns.amount_nano_usd)`,
    values: [provider, id, paymentId, amountNanoUsd, description, undoneNanoUsd, new Date(nowMs)],
  });
}

type ReturnRow = {
  return_id: string;
  amount_nano_usd: bigint;
  description: string;
  undone_nano_usd: bigint;
  taken_by: string | null;
};

/** Takes credit for whatever went back of a payment, and gives again what was undone of that; each once. Returns the last transaction. */
async function settleReturns(sql: Sql, name: PaymentName, nowMs: number): Promise<string | null> {
  const { provider, paymentId } = name;
  const payment = await findPayment(sql, name);
  if (payment === null) return null;
  const account = await lockAccount(sql, payment.tenantId);
  const { rows } = await sql.query<ReturnRow>({
    text: `
      select return_id, amount_nano_usd, description, undone_nano_usd, taken_by from payment_returns
      where provider = $1 and payment_id = $2 and given_by is null
        and case when taken_by is null then undone_nano_usd < amount_nano_usd else undone_nano_usd > 0 end
      order by received_at, return_id`,
    values: [provider, paymentId],
  });
  let last: string | null = null;
  for (const row of rows) {
    const takenBy = row.taken_by ?? (await take(sql, account, row, payment, nowMs));
    const givenBy = row.undone_nano_usd > 0n ? await giveAgain(sql, account, row, takenBy, nowMs) : null;
    await sql.query({
      text: 'update payment_returns set taken_by = $3, given_by = $4 where provider = $1 and return_id = $2',
      values: [provider, row.return_id, takenBy, givenBy],
    });
    last = givenBy ?? takenBy;
  }
  return last;
}

const take = (
  sql: Sql,
  account: Account,
  { amount_nano_usd: amountNanoUsd, description }: ReturnRow,
  { transactionId: reversesId, lotId }: Booked,
  nowMs: number,
): Promise<string> => {
  const source = { reversesId, lotId, to: 'funding', requestId: null, allowNegativeBalance: true } as const;
  return takeCredit(sql, account, { amountNanoUsd, description, ...source }, nowMs);
};

/** Credit that is as good as the one that was taken: bought, and without an end. */
async function giveAgain(
  sql: Sql,
  account: Account,
  { undone_nano_usd: amountNanoUsd, description }: ReturnRow,
  reversesId: string,
  nowMs: number,
): Promise<string> {
  const credit = {
    source: LotSource.PURCHASE,
    type: TransactionType.ADJUSTMENT,
    amountNanoUsd,
    expiresAtMs: null,
    description: `${description}, given again`,
    requestId: null,
    reversesId,
  };
  return (await giveCredit(sql, account, credit, nowMs)).transactionId;
}
