import type { SqlEntityManager } from '@mikro-orm/postgresql';
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

/** An organization's own invoice; NOT_FOUND for somebody else's and for what is no id at all. */
export async function findInvoice(em: SqlEntityManager, tenantId: string, id: string): Promise<InvoiceRow> {
  const invoice = isUuid(id) ? await em.findOne(InvoiceEntity, { tenantId, id: id.toLowerCase() }) : null;
  if (invoice === null) throw notFound('invoice');
  return invoice;
}

export const linesOf = (em: SqlEntityManager, { tenantId, month }: InvoiceRow): Promise<InvoiceLineRow[]> =>
  em.find(InvoiceLineEntity, { tenantId, month }, { orderBy: { model: 'asc', unit: 'asc', unitPriceNanoUsd: 'asc' } });

/** The same with its lines, as it is answered. */
export async function invoiceWithLines(em: SqlEntityManager, tenantId: string, id: string, nowMs: number) {
  const invoice = await findInvoice(em, tenantId, id);
  return invoiceMessage(invoice, await linesOf(em, invoice), nowMs);
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
