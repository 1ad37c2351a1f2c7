import { InvoiceStatus, PaymentStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { InvoiceEntity } from '../db/entities.ts';
import { invoiceMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { dayOf, monthOfDay } from '../domain/period.ts';
import { askedDays } from './asked-days.ts';
import { readableTenant } from './caller.ts';

export const listInvoices =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'listInvoices'> =>
  async (request, context) => {
    const { status, paymentStatus } = request;
    const tenantId = readableTenant(context, request.tenantId);
    const { firstDay, lastDay } = askedDays(request);
    const nowMs = await databaseNow(database.pool);
    const page = pageRows(request.page);
    const where = {
      tenantId,
      ...(status !== InvoiceStatus.UNSPECIFIED && { status }),
      month: {
        ...(firstDay !== null && { $gte: monthOfDay(firstDay.toString()) }),
        ...(lastDay !== null && { $lte: lastDay.toString() }),
      },
      $and: [inPaymentStatus(paymentStatus, dayOf(nowMs))],
    };
    const { offset, limit } = page;
    const [rows, total] = await database
      .em()
      .findAndCount(InvoiceEntity, where, { orderBy: { month: 'desc' }, offset, limit });
    return { invoices: rows.map((row) => invoiceMessage(row, [], nowMs)), pageInfo: pageInfo(page, total) };
  };

/** Mirrors paymentStatus of db/messages.ts in SQL. */
function inPaymentStatus(status: PaymentStatus, today: string): object {
  const paid = { $or: [{ paidAt: { $ne: null } }, { status: InvoiceStatus.FINALIZED, totalNanoUsd: 0n }] };
  const overdue = { status: InvoiceStatus.FINALIZED, dueDate: { $lt: today } };
  switch (status) {
    case PaymentStatus.PAID:
      return paid;
    case PaymentStatus.OVERDUE:
      return { $not: paid, $and: [overdue] };
    case PaymentStatus.PENDING:
      return {
        $and: [{ $not: paid }, { $or: [{ status: { $ne: InvoiceStatus.FINALIZED } }, { dueDate: { $gte: today } }] }],
      };
    default:
      return {};
  }
}
