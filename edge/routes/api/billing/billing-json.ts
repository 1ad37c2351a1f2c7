import type { Budget } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { BudgetPeriod } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import type { Commitment } from '#gen/modelgateway/billing/v1/commitment_pb.ts';
import type { Coupon } from '#gen/modelgateway/billing/v1/coupon_pb.ts';
import {
  type Invoice,
  type InvoiceLineItem,
  InvoiceStatus,
  PaymentStatus,
} from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { type Lot, LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import type { Plan } from '#gen/modelgateway/billing/v1/plan_pb.ts';
import { type PricedLine, PriceUnit } from '#gen/modelgateway/billing/v1/price_usage_pb.ts';
import { type Transaction, TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import type { Wallet } from '#gen/modelgateway/billing/v1/wallet_pb.ts';
import { upToWholeCent, usdJson } from '#shared/money.ts';
import { defaultRateLimits } from '#shared/rate-limits.ts';
import { isoTime, usdOrNull } from '../../../http/json.ts';
import { spelling } from '../../../http/spelling.ts';

/* Billing's messages as the public API spells them (decisions.md, Billing). */

const lotSources = spelling({
  purchase: LotSource.PURCHASE,
  promotion: LotSource.PROMOTION,
  coupon: LotSource.COUPON,
  adjustment: LotSource.ADJUSTMENT,
});

export const lotJson = (lot: Lot) => ({
  id: lot.id,
  source: lotSources.name(lot.source),
  granted_usd: usdJson(lot.grantedNanoUsd),
  remaining_usd: usdJson(lot.remainingNanoUsd),
  expires_at: isoTime(lot.expiresAt),
  created_at: isoTime(lot.createdAt),
});

export const walletJson = (wallet: Wallet) => ({
  balance_usd: usdJson(wallet.balanceNanoUsd),
  currency: wallet.currency,
  lots: wallet.lots.map(lotJson),
});

export const commitmentJson = (commitment: Commitment) => ({
  id: commitment.id,
  amount_usd: usdJson(commitment.amountNanoUsd),
  period_start: isoTime(commitment.periodStart),
  period_end: isoTime(commitment.periodEnd),
  consumed_usd: usdJson(commitment.consumedNanoUsd),
  remaining_usd: usdJson(commitment.remainingNanoUsd),
});

export const planJson = (plan: Plan) => ({
  code: plan.code,
  name: plan.name,
  payg_enabled: plan.paygEnabled,
  rate_limits: {
    // What a plan leaves open is the platform's.
    requests_per_minute: plan.rateLimits?.requestsPerMinute || defaultRateLimits.requestsPerMinute,
    tokens_per_minute: plan.rateLimits?.tokensPerMinute || defaultRateLimits.tokensPerMinute,
    concurrent_requests: plan.rateLimits?.concurrentRequests || defaultRateLimits.concurrentRequests,
  },
  included: {
    monthly_credit_usd: usdJson(plan.included?.monthlyCreditNanoUsd ?? 0n),
    features: plan.included?.features ?? [],
  },
  payment_terms_days: plan.paymentTermsDays,
});

export const budgetJson = (budget: Budget) => ({
  limit_usd: usdOrNull(budget.limitNanoUsd),
  period: budget.period === BudgetPeriod.MONTH ? 'month' : 'day',
  spent_usd: usdJson(budget.spentNanoUsd),
  remaining_usd: usdOrNull(budget.remainingNanoUsd),
  resets_at: isoTime(budget.resetsAt),
});

export const transactionTypes = spelling({
  usage: TransactionType.USAGE,
  grant: TransactionType.GRANT,
  purchase: TransactionType.PURCHASE,
  expiry: TransactionType.EXPIRY,
  refund: TransactionType.REFUND,
  adjustment: TransactionType.ADJUSTMENT,
});

export const transactionJson = (transaction: Transaction) => ({
  id: transaction.id,
  occurred_at: isoTime(transaction.occurredAt),
  type: transactionTypes.name(transaction.type),
  amount_usd: usdJson(transaction.amountNanoUsd),
  balance_after_usd: usdJson(transaction.balanceAfterNanoUsd),
  invoice_id: transaction.invoiceId || null,
  description: transaction.description || null,
  usage_event_id: transaction.usageEventId || null,
  reverses_id: transaction.reversesId || null,
});

export const invoiceStatuses = spelling({
  draft: InvoiceStatus.DRAFT,
  finalized: InvoiceStatus.FINALIZED,
  voided: InvoiceStatus.VOIDED,
});
export const paymentStatuses = spelling({
  pending: PaymentStatus.PENDING,
  paid: PaymentStatus.PAID,
  overdue: PaymentStatus.OVERDUE,
});

/** An invoice as lists show it. */
export const invoiceJson = (invoice: Invoice) => ({
  id: invoice.id,
  number: invoice.number || null,
  period_start: isoTime(invoice.periodStart),
  period_end: isoTime(invoice.periodEnd),
  issued_at: isoTime(invoice.issuedAt),
  due_date: invoice.dueDate || null,
  paid_at: isoTime(invoice.paidAt),
  status: invoiceStatuses.name(invoice.status),
  payment_status: paymentStatuses.name(invoice.paymentStatus),
  subtotal_usd: usdJson(invoice.subtotalNanoUsd),
  credits_usd: usdJson(invoice.creditsNanoUsd),
  total_usd: usdJson(invoice.totalNanoUsd),
  // In whole cents; 0 where nothing is asked for: of a draft, and of what is paid or voided.
  amount_due_usd: usdJson(isOwed(invoice) ? upToWholeCent(invoice.totalNanoUsd) : 0n),
});

const isOwed = ({ status, paymentStatus }: Invoice): boolean =>
  status === InvoiceStatus.FINALIZED && paymentStatus !== PaymentStatus.PAID;

export const invoiceWithLinesJson = (invoice: Invoice) => ({
  ...invoiceJson(invoice),
  line_items: invoice.lineItems.map(lineItemJson),
});

/** What a price is for, and a billion by how many of the metered quantity make one of it: quantities are exact decimals, as amounts are. */
const units: Readonly<Record<number, readonly [name: string, billionthsPerOne: bigint]>> = {
  [PriceUnit.MILLION_INPUT_TOKENS]: ['million_input_tokens', 1_000n],
  [PriceUnit.MILLION_CACHED_INPUT_TOKENS]: ['million_cached_input_tokens', 1_000n],
  [PriceUnit.MILLION_OUTPUT_TOKENS]: ['million_output_tokens', 1_000n],
  [PriceUnit.IMAGE]: ['image', 1_000_000_000n],
  [PriceUnit.AUDIO_SECOND]: ['audio_second', 1_000_000n],
  [PriceUnit.MILLION_CHARACTERS]: ['million_characters', 1_000n],
  [PriceUnit.REQUEST]: ['request', 1_000_000_000n],
};

function lineItemJson({ description, model, line }: InvoiceLineItem) {
  const { unit, quantity, unitPriceNanoUsd, amountNanoUsd } = line as PricedLine;
  const [name, billionthsPerOne] = units[unit] ?? ['request', 1_000_000_000n];
  return {
    description,
    model,
    // In units of the price, so that quantity times unit price is the amount.
    quantity: usdJson(quantity * billionthsPerOne),
    unit: name,
    unit_price_usd: usdJson(unitPriceNanoUsd),
    amount_usd: usdJson(amountNanoUsd),
  };
}

export const couponJson = (coupon: Coupon) => ({
  id: coupon.id,
  code: coupon.code,
  amount_usd: usdJson(coupon.amountNanoUsd),
  redemptions_max: coupon.redemptionsMax,
  redemptions: coupon.redemptions,
  redeem_until: isoTime(coupon.redeemUntil),
  credit_lifetime_days: coupon.creditLifetimeDays,
  disabled_at: isoTime(coupon.disabledAt),
  created_at: isoTime(coupon.createdAt),
});
