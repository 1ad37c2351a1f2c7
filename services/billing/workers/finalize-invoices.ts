import { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { monthOf } from '../domain/period.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { finalize, lockInvoice } from '../ledger/invoice-postings.ts';
import { eachOrganization, type WorkerDeps } from './each-organization.ts';

/** Usage of a month's last minutes may arrive late, by as much as an outage of an hour; anything later goes onto the next invoice. */
const graceMs = 3_600_000;

/**
 * Finalizes the drafts of past months; returns how many. Each invoice is finalized by one of several workers: the others wait for the
 * organization's row and then find it done.
 */
export async function finalizeInvoices(deps: WorkerDeps): Promise<number> {
  const { database, databaseNow } = deps;
  const nowMs = await databaseNow(database.pool);
  const { rows } = await database.query<{ tenant_id: string; id: string }>({
    name: 'invoices-to-finalize',
    text: `
      select tenant_id, id from invoices where status = ${InvoiceStatus.DRAFT} and month < $1
      order by month, id`,
    values: [monthOf(nowMs - graceMs)],
  });
  return eachOrganization(deps, rows, async (sql, { tenant_id, id }) => {
    const account = await lockAccount(sql, tenant_id);
    const invoice = await lockInvoice(sql, tenant_id, id);
    if (invoice.status !== InvoiceStatus.DRAFT) return 0;
    await finalize(sql, account, invoice, await databaseNow(sql));
    return 1;
  });
}
