import type { Invoice } from '../../api/types.ts';
import { formatUtcDay } from '../../format/time.ts';
import { Link } from '../../router/link.tsx';
import { Status } from '../../ui/badge.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import type { Column } from '../../ui/table.tsx';
import { InvoiceFilters, useInvoiceQuery } from './invoice-filters.tsx';
import { PdfButton } from './pdf-button.tsx';

/** Where the API has the invoices of one's own organization. */
export const ownInvoices = '/billing/documents/invoices';

export function Invoices() {
  const query = useInvoiceQuery();
  return (
    <PagedCard<Invoice>
      label="Invoices"
      title="Invoices"
      action={<InvoiceFilters />}
      path={ownInvoices}
      query={query}
      columns={columns}
      rowKey={(invoice) => invoice.id}
      empty={
        Object.values(query).every((value) => value === '') ? (
          <EmptyState icon="card" title="No invoices yet">
            A draft grows through each month and is finalized on the 1st of the next.
          </EmptyState>
        ) : (
          <EmptyState icon="search" title="No invoices match" />
        )
      }
    />
  );
}

const month = new Intl.DateTimeFormat('en-US', { month: 'long', year: 'numeric', timeZone: 'UTC' });

/** `November 2026`: each invoice covers one UTC month. */
export const invoiceMonth = ({ period_start }: Pick<Invoice, 'period_start'>): string =>
  month.format(new Date(period_start));

/** The day by which an invoice is to be paid; a dash for a draft or a voided one. */
export const dueDay = ({ status, due_date }: Invoice): string =>
  due_date && status !== 'voided' ? formatUtcDay(due_date) : '—';

export function PaymentStatus({ invoice }: { invoice: Invoice }) {
  if (invoice.status !== 'finalized')
    return (
      <Status tone="neutral">
        <span className="capitalize">{invoice.status}</span>
      </Status>
    );
  const tone = invoice.payment_status === 'paid' ? 'good' : invoice.payment_status === 'overdue' ? 'danger' : 'warn';
  return (
    <Status tone={tone}>
      <span className="capitalize">{invoice.payment_status}</span>
    </Status>
  );
}

const columns: readonly Column<Invoice>[] = [
  {
    name: 'Invoice',
    sortBy: (invoice) => invoice.period_start,
    cell: (invoice) => (
      <Link href={`/billing/invoices/${invoice.id}`} className="font-medium hover:underline">
        {invoice.number || 'Draft'}
      </Link>
    ),
  },
  { name: 'Month', sortBy: (invoice) => invoice.period_start, cell: invoiceMonth },
  { name: 'Status', cell: (invoice) => <PaymentStatus invoice={invoice} /> },
  {
    name: 'Due',
    sortBy: (invoice) => invoice.due_date ?? '',
    cell: dueDay,
  },
  { name: 'Total', usd: (invoice) => invoice.total_usd },
  { name: '', end: true, cell: (invoice) => <PdfButton path={`${ownInvoices}/${invoice.id}`} invoice={invoice} /> },
];
