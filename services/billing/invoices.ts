import { IsolationLevel, type SqlEntityManager } from '@mikro-orm/postgresql';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import { notFound } from '#shared/errors.ts';
import { isUuid } from '#shared/ids.ts';
import {
  InvoiceEntity,
  InvoiceLineEntity,
  type InvoiceLineRow,
  type InvoiceRow,
  type TransactionRow,
} from './db/entities.ts';
import { invoiceMessage } from './db/messages.ts';

/** An organization's own invoice; NOT_FOUND for somebody else's and for an invalid id. */
export async function findInvoice(em: SqlEntityManager, tenantId: string, id: string): Promise<InvoiceRow> {
  const invoice = isUuid(id) ? await em.findOne(InvoiceEntity, { tenantId, id: id.toLowerCase() }) : null;
  if (invoice === null) throw notFound('invoice');
  return invoice;
}

/** An organization's own invoice with its lines, as of one moment: a draft grows with every charge. */
export const invoiceWithLines = (
  database: Pick<ServiceDatabase, 'em'>,
  tenantId: string,
  id: string,
): Promise<{ invoice: InvoiceRow; lines: InvoiceLineRow[] }> =>
  transaction(
    database,
    async (em) => {
      const invoice = await findInvoice(em, tenantId, id);
      const { month } = invoice;
      const orderBy = { model: 'asc', unit: 'asc', unitPriceNanoUsd: 'asc', usageMonth: 'asc' } as const;
      return { invoice, lines: await em.find(InvoiceLineEntity, { tenantId, month }, { orderBy }) };
    },
    { isolationLevel: IsolationLevel.REPEATABLE_READ },
  );

/** An organization's own invoice with its lines, as RPCs answer it. */
export async function describedInvoice(
  database: Pick<ServiceDatabase, 'em'>,
  tenantId: string,
  id: string,
  nowMs: number,
) {
  const { invoice, lines } = await invoiceWithLines(database, tenantId, id);
  return invoiceMessage(invoice, lines, nowMs);
}

/** The invoice of each transaction, by its month. */
export async function invoiceIdsByMonth(
  em: SqlEntityManager,
  tenantId: string,
  transactions: readonly TransactionRow[],
): Promise<ReadonlyMap<string, string>> {
  const months = [...new Set(transactions.flatMap(({ invoiceMonth }) => invoiceMonth ?? []))];
  if (months.length === 0) return new Map();
  const invoices = await em.find(InvoiceEntity, { tenantId, month: { $in: months } });
  return new Map(invoices.map(({ month, id }) => [month, id]));
}
