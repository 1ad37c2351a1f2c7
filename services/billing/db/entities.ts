import { defineEntity, type InferEntity, p } from '@mikro-orm/postgresql';
import type { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import type { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import type { PriceUnit } from '#gen/modelgateway/billing/v1/price_usage_pb.ts';
import type { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';

/*
 * The basis of lists and single reads. Money moves only through ledger/post.ts, in plain SQL: the rows of the ledger are never flushed from
 * here.
 */

export const PlanEntity = defineEntity({
  name: 'Plan',
  tableName: 'plans',
  properties: {
    code: p.text().primary(),
    name: p.text(),
    paygEnabled: p.boolean(),
    requestsPerMinute: p.bigint('number'),
    tokensPerMinute: p.bigint('number'),
    concurrentRequests: p.bigint('number'),
    monthlyCreditNanoUsd: p.bigint('bigint'),
    features: p.array().$type<string[]>().default([]),
    paymentTermsDays: p.integer(),
  },
});
export type PlanRow = InferEntity<typeof PlanEntity>;

export const LotEntity = defineEntity({
  name: 'Lot',
  tableName: 'lots',
  properties: {
    tenantId: p.uuid().primary(),
    id: p.uuid().primary(),
    source: p.smallint().$type<LotSource>(),
    grantedNanoUsd: p.bigint('bigint'),
    remainingNanoUsd: p.bigint('bigint'),
    expiresAt: p.datetime().strictNullable(),
    createdAt: p.datetime(),
  },
});
export type LotRow = InferEntity<typeof LotEntity>;

export const CommitmentEntity = defineEntity({
  name: 'Commitment',
  tableName: 'commitments',
  properties: {
    tenantId: p.uuid().primary(),
    id: p.uuid().primary(),
    amountNanoUsd: p.bigint('bigint'),
    consumedNanoUsd: p.bigint('bigint').default(0),
    expiredNanoUsd: p.bigint('bigint').default(0),
    periodStart: p.datetime(),
    periodEnd: p.datetime(),
    createdAt: p.datetime(),
  },
});
export type CommitmentRow = InferEntity<typeof CommitmentEntity>;

export const TransactionEntity = defineEntity({
  name: 'Transaction',
  tableName: 'transactions',
  properties: {
    tenantId: p.uuid().primary(),
    id: p.uuid().primary(),
    type: p.smallint().$type<TransactionType>(),
    amountNanoUsd: p.bigint('bigint'),
    balanceAfterNanoUsd: p.bigint('bigint'),
    postedAt: p.datetime(),
    invoiceMonth: p.date().strictNullable(),
    description: p.text(),
    usageEventId: p.uuid().strictNullable(),
    reversesId: p.uuid().strictNullable(),
    requestId: p.uuid().strictNullable(),
  },
});
export type TransactionRow = InferEntity<typeof TransactionEntity>;

export const InvoiceEntity = defineEntity({
  name: 'Invoice',
  tableName: 'invoices',
  properties: {
    tenantId: p.uuid().primary(),
    id: p.uuid().primary(),
    month: p.date(),
    status: p.smallint().$type<InvoiceStatus>(),
    number: p.bigint('bigint').strictNullable(),
    issuedAt: p.datetime().strictNullable(),
    dueDate: p.date().strictNullable(),
    paidAt: p.datetime().strictNullable(),
    subtotalNanoUsd: p.bigint('bigint'),
    creditsNanoUsd: p.bigint('bigint'),
    totalNanoUsd: p.bigint('bigint'),
  },
});
export type InvoiceRow = InferEntity<typeof InvoiceEntity>;

export const InvoiceLineEntity = defineEntity({
  name: 'InvoiceLine',
  tableName: 'invoice_lines',
  properties: {
    tenantId: p.uuid().primary(),
    month: p.date().primary(),
    model: p.text().primary(),
    unit: p.smallint().primary().$type<PriceUnit>(),
    unitPriceNanoUsd: p.bigint('bigint').primary(),
    usageMonth: p.date().primary(),
    quantity: p.bigint('bigint'),
    amountNanoUsd: p.bigint('bigint'),
  },
});
export type InvoiceLineRow = InferEntity<typeof InvoiceLineEntity>;

export const CouponEntity = defineEntity({
  name: 'Coupon',
  tableName: 'coupons',
  properties: {
    id: p.uuid().primary(),
    codeDigest: p.blob().lazy(),
    codePreview: p.text(),
    amountNanoUsd: p.bigint('bigint'),
    redemptionsMax: p.bigint('number'),
    redemptions: p.bigint('number').default(0),
    redeemUntil: p.datetime().strictNullable(),
    creditLifetimeDays: p.integer(),
    disabledAt: p.datetime().strictNullable(),
    createdAt: p.datetime(),
  },
});
export type CouponRow = InferEntity<typeof CouponEntity>;

export const billingEntities = [
  PlanEntity,
  LotEntity,
  CommitmentEntity,
  TransactionEntity,
  InvoiceEntity,
  InvoiceLineEntity,
  CouponEntity,
];
