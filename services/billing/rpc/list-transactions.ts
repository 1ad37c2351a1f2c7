import { pageInfo, pageRows } from '#shared/page.ts';
import { transactionMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { invoiceIdsByMonth } from '../invoices.ts';
import { pageOfTransactions } from '../transactions.ts';
import { askedDays } from './asked-days.ts';
import { readableTenant } from './caller.ts';

export const listTransactions =
  ({ database }: Pick<BillingDeps, 'database'>): BillingRpc<'listTransactions'> =>
  async (request, context) => {
    const tenantId = readableTenant(context, request.tenantId);
    const page = pageRows(request.page);
    const { type, usageEventIds } = request;
    const narrowing = { tenantId, type, usageEventIds, ...askedDays(request) };
    const { rows, total } = await pageOfTransactions(database, narrowing, page);
    const invoices = await invoiceIdsByMonth(database.em(), tenantId, rows);
    return {
      transactions: rows.map((row) => transactionMessage(row, invoices.get(row.invoiceMonth ?? '') ?? '')),
      pageInfo: pageInfo(page, total),
    };
  };
