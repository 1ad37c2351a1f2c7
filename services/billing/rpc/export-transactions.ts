import type { ReadTurns } from '#shared/rpc/read-turns.ts';
import { transactionMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { invoiceIdsByMonth } from '../invoices.ts';
import { transactionsInOrder } from '../transactions.ts';
import { askedDays } from './asked-days.ts';
import { readableTenant } from './caller.ts';

const transactionsPerPage = 500;

export const exportTransactions = ({
  database,
  reads,
}: Pick<BillingDeps, 'database'> & { reads: ReadTurns }): BillingRpc<'exportTransactions'> =>
  async function* (request, context) {
    const tenantId = readableTenant(context, request.tenantId);
    const narrowing = { tenantId, type: request.type, ...askedDays(request) };
    const pages = transactionsInOrder(database, narrowing, transactionsPerPage);
    while (!context.signal.aborted) {
      const page = await reads(context, async () => {
        const { value: rows } = await pages.next();
        return rows && { rows, invoices: await invoiceIdsByMonth(database.em(), tenantId, rows) };
      });
      if (!page) return;
      const { rows, invoices } = page;
      yield { transactions: rows.map((row) => transactionMessage(row, invoices.get(row.invoiceMonth ?? '') ?? '')) };
    }
  };
