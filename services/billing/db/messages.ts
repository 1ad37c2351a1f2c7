import { timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { CommitmentSchema } from '#gen/modelgateway/billing/v1/commitment_pb.ts';
import type { CouponSchema } from '#gen/modelgateway/billing/v1/coupon_pb.ts';
import { type InvoiceSchema, InvoiceStatus, PaymentStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import type { LotSchema } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import type { PlanSchema } from '#gen/modelgateway/billing/v1/plan_pb.ts';
import type { TransactionSchema } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { timestampOrUnset } from '#shared/db/timestamp.ts';
import type { WholeMessage } from '#shared/whole-message.ts';
import { describedLine } from '../documents/line-texts.ts';
import { dayOf, nextMonthMs, startOfPeriodMs } from '../domain/period.ts';
import type {
  CommitmentRow,
  CouponRow,
  InvoiceLineRow,
  InvoiceRow,
  LotRow,
  PlanRow,
  TransactionRow,
} from './entities.ts';

/* Rows as the messages in which they are answered. */

export const planMessage = (row: PlanRow): WholeMessage<typeof PlanSchema> => ({
  code: row.code,
  name: row.name,
  paygEnabled: row.paygEnabled,
  rateLimits: {
    requestsPerMinute: row.requestsPerMinute,
    tokensPerMinute: row.tokensPerMinute,
    concurrentRequests: row.concurrentRequests,
  },
  included: { monthlyCreditNanoUsd: row.monthlyCreditNanoUsd, features: row.features },
  paymentTermsDays: row.paymentTermsDays,
});

export const lotMessage = (row: LotRow): WholeMessage<typeof LotSchema> => ({
  id: row.id,
  source: row.source,
  grantedNanoUsd: row.grantedNanoUsd,
  remainingNanoUsd: row.remainingNanoUsd,
  expiresAt: timestampOrUnset(row.expiresAt),
  createdAt: timestampFromDate(row.createdAt),
});

export const commitmentMessage = (row: CommitmentRow): WholeMessage<typeof CommitmentSchema> => ({
  id: row.id,
  amountNanoUsd: row.amountNanoUsd,
  periodStart: timestampFromDate(row.periodStart),
  periodEnd: timestampFromDate(row.periodEnd),
  consumedNanoUsd: row.consumedNanoUsd,
  remainingNanoUsd: row.amountNanoUsd - row.consumedNanoUsd - row.expiredNanoUsd,
});

export const transactionMessage = (row: TransactionRow, invoiceId: string): WholeMessage<typeof TransactionSchema> => ({
  id: row.id,
  occurredAt: timestampFromDate(row.postedAt),
  type: row.type,
  amountNanoUsd: row.amountNanoUsd,
  balanceAfterNanoUsd: row.balanceAfterNanoUsd,
  invoiceId,
  description: row.description,
  usageEventId: row.usageEventId ?? '',
  reversesId: row.reversesId ?? '',
});

export const couponMessage = (row: CouponRow, code = row.codePreview): WholeMessage<typeof CouponSchema> => ({
  id: row.id,
  code,
  amountNanoUsd: row.amountNanoUsd,
  redemptionsMax: row.redemptionsMax,
  redemptions: row.redemptions,
  redeemUntil: timestampOrUnset(row.redeemUntil),
  creditLifetimeDays: row.creditLifetimeDays,
  disabledAt: timestampOrUnset(row.disabledAt),
  createdAt: timestampFromDate(row.createdAt),
});

/** The invoice number as people read it. */
export const invoiceNumber = (number: bigint | null): string =>
  number === null ? '' : `INV-${number.toString().padStart(6, '0')}`;

/** The number in what people write or copy: with or without prefix, hyphen and zeros. Null if it is none. */
export function readInvoiceNumber(text: string): bigint | null {
  const digits = /^(?:inv-?)?(\d{1,18})$/i.exec(text.trim())?.[1];
  return digits === undefined ? null : BigInt(digits);
}

function paymentStatus(
  row: Pick<InvoiceRow, 'status' | 'paidAt' | 'totalNanoUsd' | 'dueDate'>,
  nowMs: number,
): PaymentStatus {
  if (row.paidAt !== null || (row.status === InvoiceStatus.FINALIZED && row.totalNanoUsd === 0n))
    return PaymentStatus.PAID;
  // Paid on its due date it is in time; days as text compare like the days themselves.
  if (row.status === InvoiceStatus.FINALIZED && row.dueDate !== null && row.dueDate < dayOf(nowMs)) {
    return PaymentStatus.OVERDUE;
  }
  return PaymentStatus.PENDING;
}

export const invoiceMessage = (
  row: InvoiceRow,
  lines: readonly InvoiceLineRow[],
  nowMs: number,
): WholeMessage<typeof InvoiceSchema> => ({
  id: row.id,
  number: invoiceNumber(row.number),
  periodStart: timestampFromMs(startOfPeriodMs(row.month)),
  periodEnd: timestampFromMs(nextMonthMs(startOfPeriodMs(row.month))),
  issuedAt: timestampOrUnset(row.issuedAt),
  dueDate: row.dueDate ?? '',
  paidAt: timestampOrUnset(row.paidAt),
  status: row.status,
  paymentStatus: paymentStatus(row, nowMs),
  subtotalNanoUsd: row.subtotalNanoUsd,
  creditsNanoUsd: row.creditsNanoUsd,
  totalNanoUsd: row.totalNanoUsd,
  lineItems: lines.map((line) => ({
    description: describedLine(line),
    model: line.model,
    usageMonth: line.usageMonth.slice(0, 7),
    line: {
      unit: line.unit,
      quantity: line.quantity,
      unitPriceNanoUsd: line.unitPriceNanoUsd,
      amountNanoUsd: line.amountNanoUsd,
    },
  })),
});
