import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { TransactionEntity } from '../db/entities.ts';
import { transactionMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { dayAfter, dayOf, startOfPeriodMs } from '../domain/period.ts';
import { invoiceIdsByMonth } from '../invoices.ts';
import { adminCaller } from './caller.ts';

export const listTransactions =
  ({ database }: Pick<BillingDeps, 'database'>): BillingRpc<'listTransactions'> =>
  async (request, context) => {
    const { tenantId } = adminCaller(context);
    const fromMs = readDay(request.startDate, 'start_date');
    const toMs = readDay(request.endDate, 'end_date');
    if (fromMs !== null && toMs !== null && fromMs > toMs) {
      throw invalidRequest('start_date', 'start_date must not be after end_date.', 'invalid_value');
    }
    const page = pageRows(request.page);
    const { offset, limit } = page;
    const em = database.em();
    const where = {
      tenantId,
      type: request.type === TransactionType.UNSPECIFIED ? { $gt: 0 } : request.type,
      postedAt: {
        ...(fromMs !== null && { $gte: new Date(fromMs) }),
        ...(toMs !== null && { $lt: new Date(startOfPeriodMs(dayAfter(toMs, 1))) }),
      },
    };
    const [rows, total] = await em.findAndCount(TransactionEntity, where as never, {
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

/** The start of a UTC day, of years that a transaction can be of; null for an open end. 31 February is no day. */
function readDay(text: string, param: string): number | null {
  if (text === '') return null;
  const ms = Date.parse(`${text}T00:00:00Z`);
  const year = Number(text.slice(0, 4));
  if (Number.isNaN(ms) || dayOf(ms) !== text || year < 1970 || year > 9000) {
    throw invalidRequest(param, `Invalid value for \`${param}\`: expected a date such as 2030-01-31.`, 'invalid_value');
  }
  return ms;
}
