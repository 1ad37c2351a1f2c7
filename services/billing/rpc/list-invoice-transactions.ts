import type { FilterQuery } from '@mikro-orm/postgresql';
import { pageInfo, pageRows } from '#shared/page.ts';
import { TransactionEntity, type TransactionRow } from '../db/entities.ts';
import { transactionMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { findInvoice } from '../invoices.ts';
import { adminCaller } from './caller.ts';

export const listInvoiceTransactions =
  ({ database }: Pick<BillingDeps, 'database'>): BillingRpc<'listInvoiceTransactions'> =>
  async (request, context) => {
    const { tenantId } = adminCaller(context);
    const em = database.em();
    const { id, month } = await findInvoice(em, tenantId, request.invoiceId);
    const page = pageRows(request.page);
    const { offset, limit } = page;
    const where: FilterQuery<TransactionRow> = { tenantId, invoiceMonth: month, type: { $gt: 0 } };
    const [rows, total] = await em.findAndCount(TransactionEntity, where, {
      orderBy: { id: 'desc' },
      offset,
      limit,
    });
    return { transactions: rows.map((row) => transactionMessage(row, id)), pageInfo: pageInfo(page, total) };
  };
