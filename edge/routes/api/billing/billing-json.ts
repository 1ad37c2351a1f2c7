import { type Static, Type } from 'typebox';
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
import { idSchema, isoTime, isoTimeSchema, usdOrNull, usdSchema } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';
import { spelling } from '../../../http/spelling.ts';
import { rateLimitsSchema } from '../rate-limit-fields.ts';

/* Billing's messages as the public API spells them (decisions.md, Billing). */

const lotSources = spelling({
  purchase: LotSource.PURCHASE,
  promotion: LotSource.PROMOTION,
  coupon: LotSource.COUPON,
  adjustment: LotSource.ADJUSTMENT,
});

/** Credit that was granted in one piece, or refunds and corrections together. */
export const lotSchema = Type.Object(
  {
    id: idSchema,
    source: lotSources.schema,
    granted_usd: usdSchema,
    remaining_usd: usdSchema,
    expires_at: orNull(isoTimeSchema),
    created_at: isoTimeSchema,
  },
  { $id: 'Lot' },
);
export const lotJson = (lot: Lot): Static<typeof lotSchema> => ({
  id: lot.id,
  source: lotSources.name(lot.source),
  granted_usd: usdJson(lot.grantedNanoUsd),
  remaining_usd: usdJson(lot.remainingNanoUsd),
  expires_at: isoTime(lot.expiresAt),
  created_at: isoTime(lot.createdAt!),
});

export const walletSchema = Type.Object(
  {
    balance_usd: Type.Number({
      description:
        'Below 0 if more credit was taken back than there was: credit that is given or bought later pays that first.',
    }),
    currency: Type.String({ description: 'Always `USD`.' }),
    lots: Type.Array(lotSchema, {
      description: 'Lots with something left, in the order in which usage draws on them.',
    }),
  },
  { $id: 'Wallet' },
);
export const walletJson = (wallet: Wallet): Static<typeof walletSchema> => ({
  balance_usd: usdJson(wallet.balanceNanoUsd),
  currency: wallet.currency,
  lots: wallet.lots.map(lotJson),
});

export const commitmentSchema = Type.Object(
  {
    id: idSchema,
    amount_usd: usdSchema,
    period_start: isoTimeSchema,
    period_end: Type.String({ format: 'date-time', description: 'Exclusive.' }),
    consumed_usd: usdSchema,
    remaining_usd: usdSchema,
  },
  { $id: 'Commitment' },
);
export const commitmentJson = (commitment: Commitment): Static<typeof commitmentSchema> => ({
  id: commitment.id,
  amount_usd: usdJson(commitment.amountNanoUsd),
  period_start: isoTime(commitment.periodStart!),
  period_end: isoTime(commitment.periodEnd!),
  consumed_usd: usdJson(commitment.consumedNanoUsd),
  remaining_usd: usdJson(commitment.remainingNanoUsd),
});

export const planSchema = Type.Object(
  {
    code: Type.String(),
    name: Type.String(),
    payg_enabled: Type.Boolean({ description: 'Whether usage beyond commitment and credit is invoiced.' }),
    rate_limits: rateLimitsSchema,
    included: Type.Object({
      monthly_credit_usd: usdSchema,
      features: Type.Array(Type.String()),
    }),
    payment_terms_days: Type.Integer(),
  },
  { $id: 'Plan' },
);
export const planJson = (plan: Plan): Static<typeof planSchema> => ({
  code: plan.code,
  name: plan.name,
  payg_enabled: plan.paygEnabled,
  rate_limits: {
    // Limits that the plan leaves open are the platform's.
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

export const currentPlanSchema = Type.Object(
  {
    ...planSchema.properties,
    funds_exhausted: Type.Boolean({
      description:
        'Whether calls that cost anything are refused, since no commitment, credit or room for pay as you go is left.',
    }),
  },
  { $id: 'CurrentPlan' },
);

/** A limit with what was spent of it. */
export const budgetSchema = Type.Object(
  {
    limit_usd: orNull(Type.Number({ description: '0 blocks all spend; null means no limit.' })),
    period: Type.Enum(['day', 'month']),
    spent_usd: usdSchema,
    remaining_usd: orNull(usdSchema),
    resets_at: isoTimeSchema,
  },
  { $id: 'Budget' },
);
export const budgetJson = (budget: Budget): Static<typeof budgetSchema> => ({
  limit_usd: usdOrNull(budget.limitNanoUsd),
  period: budget.period === BudgetPeriod.MONTH ? 'month' : 'day',
  spent_usd: usdJson(budget.spentNanoUsd),
  remaining_usd: usdOrNull(budget.remainingNanoUsd),
  resets_at: isoTime(budget.resetsAt!),
});

export const transactionTypes = spelling({
  usage: TransactionType.USAGE,
  grant: TransactionType.GRANT,
  purchase: TransactionType.PURCHASE,
  expiry: TransactionType.EXPIRY,
  refund: TransactionType.REFUND,
  adjustment: TransactionType.ADJUSTMENT,
});

export const transactionSchema = Type.Object(
  {
    id: idSchema,
    occurred_at: { ...isoTimeSchema, description: 'When it was booked: a charge, after its call has ended.' },
    type: transactionTypes.schema,
    amount_usd: Type.Number({ description: 'Positive for what the organization gains, negative for what it spends.' }),
    balance_after_usd: Type.Number({
      description:
        "The wallet's balance after the transaction; what a commitment or an invoice pays does not change it.",
    }),
    invoice_id: orNull(idSchema),
    description: orNull(Type.String({ description: "For a charge, the model's name." })),
    usage_event_id: orNull(idSchema),
    reverses_id: orNull(
      Type.String({
        format: 'uuid',
        description:
          'The transaction that this one reverses: the charge that a refund gives back, or the payment of which money went back to the payer; if that came in again, what was taken for it.',
      }),
    ),
  },
  { $id: 'Transaction' },
);
export const transactionJson = (transaction: Transaction): Static<typeof transactionSchema> => ({
  id: transaction.id,
  occurred_at: isoTime(transaction.occurredAt!),
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
export const invoiceSchema = Type.Object(
  {
    id: idSchema,
    number: orNull(Type.String()),
    period_start: isoTimeSchema,
    period_end: Type.String({ format: 'date-time', description: 'Exclusive: the start of the next month.' }),
    issued_at: orNull(isoTimeSchema),
    due_date: orNull(Type.String({ format: 'date', description: 'The last UTC day on which payment is on time.' })),
    paid_at: orNull(isoTimeSchema),
    status: invoiceStatuses.schema,
    payment_status: paymentStatuses.schema,
    subtotal_usd: usdSchema,
    credits_usd: Type.Number({ description: 'The part that commitment and credit have paid.' }),
    total_usd: Type.Number({ description: 'What is to be paid: subtotal less credits.' }),
    amount_due_usd: Type.Number({ description: 'In whole cents; 0 for a draft, and for a paid or voided invoice.' }),
  },
  { $id: 'Invoice' },
);
export const invoiceJson = (invoice: Invoice): Static<typeof invoiceSchema> => ({
  id: invoice.id,
  number: invoice.number || null,
  period_start: isoTime(invoice.periodStart!),
  period_end: isoTime(invoice.periodEnd!),
  issued_at: isoTime(invoice.issuedAt),
  due_date: invoice.dueDate || null,
  paid_at: isoTime(invoice.paidAt),
  status: invoiceStatuses.name(invoice.status),
  payment_status: paymentStatuses.name(invoice.paymentStatus),
  subtotal_usd: usdJson(invoice.subtotalNanoUsd),
  credits_usd: usdJson(invoice.creditsNanoUsd),
  total_usd: usdJson(invoice.totalNanoUsd),
  amount_due_usd: usdJson(isOwed(invoice) ? upToWholeCent(invoice.totalNanoUsd) : 0n),
});

const isOwed = ({ status, paymentStatus }: Invoice): boolean =>
  status === InvoiceStatus.FINALIZED && paymentStatus !== PaymentStatus.PAID;

/**
 * For each measure, the unit of its price and how many of the metered quantity, in billionths of a unit, make one: quantities are exact
 * decimals, as amounts are.
 */
const units = {
  [PriceUnit.MILLION_INPUT_TOKENS]: ['million_input_tokens', 1_000n],
  [PriceUnit.MILLION_CACHED_INPUT_TOKENS]: ['million_cached_input_tokens', 1_000n],
  [PriceUnit.MILLION_OUTPUT_TOKENS]: ['million_output_tokens', 1_000n],
  [PriceUnit.IMAGE]: ['image', 1_000_000_000n],
  [PriceUnit.AUDIO_SECOND]: ['audio_second', 1_000_000n],
  [PriceUnit.MILLION_CHARACTERS]: ['million_characters', 1_000n],
  [PriceUnit.REQUEST]: ['request', 1_000_000_000n],
} as const;

const lineItemSchema = Type.Object({
  description: Type.String(),
  model: Type.String(),
  quantity: Type.Number({ description: 'In units of the price: quantity times unit price is the amount.' }),
  unit: Type.Enum(Object.values(units).map(([name]) => name)),
  unit_price_usd: usdSchema,
  amount_usd: usdSchema,
  usage_month: Type.String({
    description:
      "The UTC month in which usage reports count the calls, as `YYYY-MM`: an earlier one than the invoice's for calls that were charged late, a later one for jobs that were submitted in the invoice's month.",
  }),
});
function lineItemJson({ description, model, line, usageMonth }: InvoiceLineItem): Static<typeof lineItemSchema> {
  const { unit, quantity, unitPriceNanoUsd, amountNanoUsd } = line as PricedLine;
  const [name, billionthsPerOne] = units[unit as keyof typeof units] ?? units[PriceUnit.REQUEST];
  return {
    description,
    model,
    quantity: usdJson(quantity * billionthsPerOne),
    unit: name,
    unit_price_usd: usdJson(unitPriceNanoUsd),
    amount_usd: usdJson(amountNanoUsd),
    usage_month: usageMonth,
  };
}

export const invoiceWithLinesSchema = Type.Object(
  { ...invoiceSchema.properties, line_items: Type.Array(lineItemSchema) },
  { $id: 'InvoiceWithLines' },
);
export const invoiceWithLinesJson = (invoice: Invoice): Static<typeof invoiceWithLinesSchema> => ({
  ...invoiceJson(invoice),
  line_items: invoice.lineItems.map(lineItemJson),
});

export const couponSchema = Type.Object(
  {
    id: idSchema,
    code: Type.String({ description: 'Complete in the response that creates it, abridged in all others.' }),
    amount_usd: usdSchema,
    redemptions_max: Type.Integer({ description: 'How many organizations may redeem it.' }),
    redemptions: Type.Integer(),
    redeem_until: orNull(isoTimeSchema),
    credit_lifetime_days: Type.Integer({
      description: 'Counted from the redemption; 0 means that the credit never expires.',
    }),
    disabled_at: orNull(isoTimeSchema),
    created_at: isoTimeSchema,
  },
  { $id: 'Coupon' },
);
export const couponJson = (coupon: Coupon): Static<typeof couponSchema> => ({
  id: coupon.id,
  code: coupon.code,
  amount_usd: usdJson(coupon.amountNanoUsd),
  redemptions_max: coupon.redemptionsMax,
  redemptions: coupon.redemptions,
  redeem_until: isoTime(coupon.redeemUntil),
  credit_lifetime_days: coupon.creditLifetimeDays,
  disabled_at: isoTime(coupon.disabledAt),
  created_at: isoTime(coupon.createdAt!),
});
