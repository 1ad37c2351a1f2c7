import { createHmac, timingSafeEqual } from 'node:crypto';
import { type GatewayError, invalidRequest } from '#shared/errors.ts';
import { isUuid } from '#shared/ids.ts';
import { nanoUsdPerCent } from '#shared/money.ts';
import { isStorableText } from '#shared/safe-text.ts';
import type { PaymentEvent, PaymentProvider } from './provider.ts';

/** How old a signature may be; Stripe's own libraries accept the same. */
const toleranceMs = 300_000;
/** A billion USD. */
const centsMax = 100_000_000_000;
const paidSessions: ReadonlySet<unknown> = new Set([
  'checkout.session.completed',
  'checkout.session.async_payment_succeeded',
]);

/**
 * Whether events of a type about a dispute tell of money that came in again. Each dispute moves money at most twice, there and back; who
 * disputes a payment another time makes another dispute (Stripe, "The Dispute object", `balance_transactions`).
 */
const isReinstated: ReadonlyMap<string, boolean> = new Map([
  ['charge.dispute.funds_withdrawn', false],
  ['charge.dispute.funds_reinstated', true],
]);
const refundEvents: ReadonlySet<string> = new Set([
  'refund.created',
  'refund.updated',
  'refund.failed',
  // What Stripe sent before there were the others.
  'charge.refund.updated',
]);
/** Whether the payer does not get a refund with a status. It leaves the account of whoever refunds when it is made. */
const isFailed: ReadonlyMap<unknown, boolean> = new Map([
  ['pending', false],
  ['requires_action', false],
  ['succeeded', false],
  ['failed', true],
  ['canceled', true],
]);

/** The ids of what stands beside a payment: its charge, refund, dispute, invoice, movement of the balance, customer and payment method. */
const besidePayment = /^(?:ch|py|re|pyr|du|dp|in|txn|cus|pm)_/;

/** Whether an id is one of something else than a payment; no event names a payment so. */
export const isBesidePayment = (id: string): boolean => besidePayment.test(id);

type StripeObject = {
  id?: unknown;
  currency?: unknown;
  amount?: unknown;
  amount_received?: unknown;
  amount_total?: unknown;
  payment_status?: unknown;
  status?: unknown;
  payment_intent?: unknown;
  metadata?: { tenant_id?: unknown; invoice_id?: unknown };
  balance_transactions?: unknown;
};

/** `account`: of events of another account, which is connected to the one that has the webhook, or belongs to the same organization. */
type StripeEvent = { id: string; type: string; account?: unknown; object: StripeObject };

/**
 * Webhooks in the form of Stripe's: `Stripe-Signature: t=<unix seconds>,v1=<hex HMAC-SHA-256 of "t.payload">`. A succeeded payment intent
 * or a paid checkout session buys credit for the organization in its metadata (`tenant_id`), or pays the invoice named there (`invoice_id`)
 * if it covers its total; since that has nine decimals, payments should be requested for it rounded up to whole cents. A session that is
 * paid later (bank debits) completes unpaid, and another event reports the payment. Stripe reports one payment both by its session and by
 * its intent, whose id is in the session. Refunds, and disputes when they move money, name that intent too.
 */
export const stripeProvider = (secret: string): PaymentProvider => ({
  async read(payload, signature, now) {
    const signedAtMs = signatureTimeMs(payload, signature, secret);
    if (Math.abs((await now()) - signedAtMs) > toleranceMs) throw refused('The signature of the webhook is too old.');
    const event = parse(payload);
    return { id: event.id, ...paymentIn(event), ...returnIn(event) };
  },
});

/** The time at which a payload was signed, according to its signature, which must be valid. */
function signatureTimeMs(payload: Uint8Array, header: string, secret: string): number {
  const parts = header.split(',').map((part) => part.trim().split('=', 2) as [string, string | undefined]);
  const time = parts.find(([name]) => name === 't')?.[1] ?? '';
  const expected = createHmac('sha256', secret).update(`${time}.`).update(payload).digest();
  const isSigned = parts.some(([name, value]) => {
    if (name !== 'v1' || value === undefined || !/^[0-9a-f]{64}$/i.test(value)) return false;
    return timingSafeEqual(Buffer.from(value, 'hex'), expected);
  });
  if (!/^\d{1,12}$/.test(time) || !isSigned) throw refused('The signature of the webhook is not valid.');
  return Number(time) * 1000;
}

function parse(payload: Uint8Array): StripeEvent {
  try {
    const event = JSON.parse(Buffer.from(payload).toString('utf8'));
    const { id, type, account } = event;
    const object = event.data?.object;
    if (isId(id) && typeof type === 'string' && typeof object === 'object' && object !== null)
      return { id, type, account, object };
  } catch {
    // Answered below.
  }
  throw refused('The body of the webhook is not an event.');
}

function paymentIn({ id: eventId, type, account, object }: StripeEvent): Pick<PaymentEvent, 'payment' | 'unbooked'> {
  const amount = amountOf(type, object);
  const { currency } = object;
  const { tenant_id: tenantId, invoice_id: invoiceId } = object.metadata ?? {};
  // One that has no id is known by its only event.
  const id = [object.payment_intent, object.id].find(isId) ?? eventId;
  // Payments for other things share the provider's account.
  if (amount === null || typeof tenantId !== 'string' || tenantId === '') return { payment: null, unbooked: null };
  if (isOfOther(account) || !isUuid(tenantId) || currency !== 'usd' || amount > centsMax)
    return { payment: null, unbooked: { paymentId: id, tenantId, amount, currency, account } };
  const payment = {
    id,
    tenantId: tenantId.toLowerCase(),
    amountNanoUsd: BigInt(amount) * nanoUsdPerCent,
    invoiceId: typeof invoiceId === 'string' && isUuid(invoiceId) ? invoiceId.toLowerCase() : null,
  };
  return { payment, unbooked: null };
}

function returnIn({ type, account, object }: StripeEvent): Pick<PaymentEvent, 'returned' | 'unbookedReturn'> {
  const { id, payment_intent: paymentId, currency, amount, status } = object;
  const isRefund = refundEvents.has(type);
  const isUndone = isRefund ? isFailed.get(status) : isReinstated.get(type);
  if (isUndone === undefined || !isAmount(amount) || !isId(id) || !isId(paymentId) || isOfOther(account))
    return { returned: null, unbookedReturn: null };
  if (currency !== 'usd' || amount > centsMax)
    return { returned: null, unbookedReturn: { paymentId, returnId: id, amount, currency } };
  const amountNanoUsd = BigInt(amount) * nanoUsdPerCent;
  const undoneNanoUsd = !isUndone
    ? 0n
    : isRefund || status === 'won'
      ? amountNanoUsd
      : reinstatedOf(amountNanoUsd, object.balance_transactions);
  const description = `${isRefund ? 'Refund' : 'Dispute'} ${id.slice(0, 200)}`;
  return { returned: { id, paymentId, amountNanoUsd, description, undoneNanoUsd }, unbookedReturn: null };
}

/**
 * How much of a dispute that was not won came in again: of one about a whole payment, what had been refunded of that before. What it moved
 * is in the currency of the account at the provider. If nothing tells of a part, it is all.
 */
function reinstatedOf(amountNanoUsd: bigint, transactions: unknown): bigint {
  const amounts = (Array.isArray(transactions) ? transactions : []).map((transaction) => transaction?.amount);
  const sumOf = (given: readonly unknown[]) => given.filter(isAmount).reduce((sum, cents) => sum + BigInt(cents), 0n);
  const withdrawn = sumOf(amounts.map((cents) => -cents));
  const reinstated = sumOf(amounts);
  return reinstated > 0n && reinstated < withdrawn ? (amountNanoUsd * reinstated) / withdrawn : amountNanoUsd;
}

/** Whether the money came in, or went back, elsewhere; a live webhook is told of a connected account's tests too. */
const isOfOther = (account: unknown): boolean => account !== undefined && account !== null;

const isId = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= 255 && isStorableText(value);

/** The amount in the smallest unit of its currency; null when nothing was paid. */
function amountOf(type: string, object: StripeObject): number | null {
  const amount =
    type === 'payment_intent.succeeded'
      ? (object.amount_received ?? object.amount)
      : paidSessions.has(type) && object.payment_status === 'paid'
        ? object.amount_total
        : null;
  return isAmount(amount) ? amount : null;
}

const isAmount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) > 0;

const refused = (text: string): GatewayError => invalidRequest(undefined, text, 'invalid_webhook');
