import type { FilterQuery } from '@mikro-orm/postgresql';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { TransactionEntity, type TransactionRow } from '../db/entities.ts';
import { transactionMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { startOfPeriodMs } from '../domain/period.ts';
import { invoiceIdsByMonth } from '../invoices.ts';
import { askedDays } from './asked-days.ts';
import { readableTenant } from './caller.ts';

export const listTransactions =
  ({ database }: Pick<BillingDeps, 'database'>): BillingRpc<'listTransactions'> =>
  async (request, context) => {
    const tenantId = readableTenant(context, request.tenantId);
    const { firstDay, lastDay } = askedDays(request);
    const page = pageRows(request.page);
    const { offset, limit } = page;
    const em = database.em();
    const where: FilterQuery<TransactionRow> = {
      tenantId,
      type: request.type === TransactionType.UNSPECIFIED ? { $gt: 0 } : request.type,
      postedAt: {
        ...(firstDay !== null && { $gte: startOf(firstDay) }),
        ...(lastDay !== null && { $lt: startOf(lastDay.add({ days: 1 })) }),
      },
    };
    const [rows, total] = await em.findAndCount(TransactionEntity, where, {
      orderBy: { id: 'desc' },
      offset,
      limit,
    });
    const invoices = await invoiceIdsByMonth(em, tenantId, rows);
    return {
      transactions: rows.map((row) => transactionMessage(row, invoices.get(row.invoiceMonth ?? '') ?? '')),
      pageInfo: pageInfo(page, total),
    };
  };

/** The first moment of a UTC day. */
const startOf = (day: Temporal.PlainDate): Date => new Date(startOfPeriodMs(day.toString()));
