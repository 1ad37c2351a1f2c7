import { pageInfo, pageRows } from '#shared/page.ts';
import { transactionMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { findInvoice } from '../invoices.ts';
import { pageOfTransactions } from '../transactions.ts';
import { readableTenant } from './caller.ts';

export const listInvoiceTransactions =
  ({ database }: Pick<BillingDeps, 'database'>): BillingRpc<'listInvoiceTransactions'> =>
  async (request, context) => {
    const tenantId = readableTenant(context, request.tenantId);
    const { id, month } = await findInvoice(database.em(), tenantId, request.invoiceId);
    const page = pageRows(request.page);
    const { rows, total } = await pageOfTransactions(database, { tenantId, invoiceMonth: month }, page);
    return { transactions: rows.map((row) => transactionMessage(row, id)), pageInfo: pageInfo(page, total) };
  };
