import type { ReadTurns } from '#shared/rpc/read-turns.ts';
import { transactionMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { invoiceIdsByMonth } from '../invoices.ts';
import { transactionsInOrder } from '../transactions.ts';
import { askedDays } from './asked-days.ts';
import { readableTenant } from './caller.ts';

/** A page is made in one turn of the event loop, for which everybody waits. */
const transactionsPerPage = 100;

export const exportTransactions = ({
  database,
  reads,
}: Pick<BillingDeps, 'database'> & { reads: ReadTurns }): BillingRpc<'exportTransactions'> =>
  async function* (request, context) {
    const tenantId = readableTenant(context, request.tenantId);
    const narrowing = { tenantId, type: request.type, ...askedDays(request) };
    const pages = transactionsInOrder(database, narrowing, transactionsPerPage);
    const nextPage = async () => {
      const { value: rows } = await pages.next();
      return rows && { rows, invoices: await invoiceIdsByMonth(database.em(), tenantId, rows) };
    };
    for (let place: 'first' | 'next' = 'first'; !context.signal.aborted; place = 'next') {
      const page = await reads(context, nextPage, place);
      if (!page) return;
      const { rows, invoices } = page;
      yield { transactions: rows.map((row) => transactionMessage(row, invoices.get(row.invoiceMonth ?? '') ?? '')) };
    }
  };
